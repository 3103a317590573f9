// Sampling: the next token, from the logits of the last.
//
// ```text
// t = argmax z        or t drawn from softmax(z / τ), cut to the k largest and to the smallest set of mass ≥ p
// ```
//
// - Launch: sampling_parts: P × n blocks of THREADS threads, where P = ⌈v/(THREADS·VECTOR)⌉, block (p, i) owns that part of row
//   i. sampling_argmax: n blocks of THREADS threads, block i owns row i. Only the argmax is computed here.
// - Requires: K1 z holds n rows of ld values, a multiple of 8, of which v ≥ 1 count, 16-byte aligned; K2 parts holds n·P; tokens
//   and margins hold ldt ≥ n; K3 shared memory: a Best for each thread.
// - Precision: exact. Of equal logits the lowest token wins; NaN counts as larger than any number.

#include "bf16x8.cuh"

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

// The best of all threads', in thread 0.
DEVICE Best best_of_block(Best* shared, const Best& mine) {
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int width = THREADS / 2; width != 0; width /= 2) {
        if (int(threadIdx.x) < width) {
            shared[threadIdx.x] = better(shared[threadIdx.x], shared[threadIdx.x + width]);
        }
        __syncthreads();
    }
    return shared[0];
}

DEVICE Best none() {
    const float lowest = __uint_as_float(0xff800000);
    return {lowest, lowest, -1};
}

// The best of each part of a row, a vector a thread.
extern "C" __global__ void __launch_bounds__(THREADS)
sampling_parts(const bf16* __restrict__ z, Best* __restrict__ parts, int v, int ld) {
    SHARED_ARRAY(Best, shared, THREADS);
    const int first = (blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    Best best = none();
    if (first < v) {
        const Floats8 logits = unpack(*vectors(z + int64(blockIdx.y) * ld + first));
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            if (first + i < v) {
                best = better(best, {logits.values[i], none().largest, first + i});
            }
        }
    }
    best = best_of_block(shared, best);
    if (threadIdx.x == 0) {
        parts[int64(blockIdx.y) * gridDim.x + blockIdx.x] = best;
    }
}

// The best of a row's parts. What is behind the last row becomes 0.
extern "C" __global__ void __launch_bounds__(THREADS)
sampling_argmax(const Best* __restrict__ parts, int* __restrict__ tokens, float* __restrict__ margins, int count, int ldt) {
    SHARED_ARRAY(Best, shared, THREADS);
    Best best = none();
    for (int i = threadIdx.x; i < count; i += THREADS) {
        best = better(best, parts[int64(blockIdx.x) * count + i]);
    }
    best = best_of_block(shared, best);
    if (threadIdx.x == 0) {
        tokens[blockIdx.x] = best.token;
        margins[blockIdx.x] = best.largest - best.second;
    }
    if (blockIdx.x == 0) {
        for (int i = gridDim.x + threadIdx.x; i < ldt; i += THREADS) {
            tokens[i] = 0;
            margins[i] = 0.f;
        }
    }
}
