// Sampling: the next token, from the logits of the last.
//
// ```text
// t = argmax z        or t drawn from softmax(z / τ), cut to the k largest and to the smallest set of mass ≥ p
// ```
//
// - Launch: n blocks of THREADS threads, block i owns row i. Only the argmax is computed here.
// - Requires: K1 z holds n rows of ld values, of which v ≥ 1 count; K2 tokens and margins hold n; K3 shared memory: a Best
//   for each thread.
// - Precision: exact. Of equal logits the lowest token wins; NaN counts as larger than any number.

#include "simt.cuh"

// The largest logit of some, where it is, and the largest of the others. Of none: token −1.
struct Best {
    float largest;
    float second;
    int token;
};

DEVICE bool is_larger(float a, float b) {
    return a > b || (a != a && b == b);
}

// The best of both, where all tokens of `a` or ties go before those of `b` by their number.
DEVICE Best better(const Best& a, const Best& b) {
    if (a.token < 0 || b.token < 0) {
        return a.token < 0 ? b : a;
    }
    const bool b_wins = is_larger(b.largest, a.largest) || (!is_larger(a.largest, b.largest) && b.token < a.token);
    const Best& winner = b_wins ? b : a;
    const Best& loser = b_wins ? a : b;
    return {winner.largest, is_larger(loser.largest, winner.second) ? loser.largest : winner.second, winner.token};
}

extern "C" __global__ void __launch_bounds__(THREADS)
sampling_argmax(const bf16* __restrict__ z, int* __restrict__ tokens, float* __restrict__ margins, int v, int ld) {
    SHARED_ARRAY(Best, shared, THREADS);
    const float lowest = __uint_as_float(0xff800000);
    Best best = {lowest, lowest, -1};
    for (int i = threadIdx.x; i < v; i += THREADS) {
        best = better(best, {to_float(z[int64(blockIdx.x) * ld + i]), lowest, i});
    }
    shared[threadIdx.x] = best;
    __syncthreads();
    for (int width = THREADS / 2; width != 0; width /= 2) {
        if (int(threadIdx.x) < width) {
            shared[threadIdx.x] = better(shared[threadIdx.x], shared[threadIdx.x + width]);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        tokens[blockIdx.x] = shared[0].token;
        margins[blockIdx.x] = shared[0].largest - shared[0].second;
    }
}
