// Router: scores each expert, chooses k by score plus bias, and weighs them by their share of the scores.
//
// ```text
// rᵢₑ = σ(zᵢₑ)        Cᵢ = the k experts of largest rᵢₑ + bₑ        wᵢₑ = rᵢₑ / Σ rᵢ꜀ over c in Cᵢ
// ```
//
// - Launch: ⌈n/BLOCK_TOKENS⌉ blocks of BLOCK_WARPS warps, block i owns tokens i·BLOCK_TOKENS to i·BLOCK_TOKENS +
//   BLOCK_TOKENS − 1.
// - Requires: K1 x holds n rows of ldx values, g E rows of ldg, z n rows of ldz, r and b and C and w likewise; K2 1 ≤ k ≤
//   E, k ≤ 32, E ≤ 1024; K3 shared memory: BLOCK_TOKENS rows of d bf16, and in their place, once they are read,
//   2·BLOCK_TOKENS rows of E f32; K4 nothing that is written overlaps anything.
// - Precision: f32 throughout. zᵢₑ = Σ xᵢₖ·gₑₖ fused, lane l sums k = l, l + 32, … upward, then warp_sum. The same for a
//   token whatever tokens are beside it. Of equal experts the lowest is chosen first; NaN counts as larger than any
//   number.

#include "ordered.cuh"
#include "reduce.cuh"

// Logits of the block's tokens: a warp takes an expert at a time, for all tokens, so that its weights are read once.
DEVICE void score_experts(const bf16* rows, const float* __restrict__ gate, float* z, int tokens, int experts, int d, int ldg,
                          int ldz) {
    const int lane = threadIdx.x % WARP_LANES;
    for (int expert = threadIdx.x / WARP_LANES; expert < experts; expert += BLOCK_WARPS) {
        float sums[BLOCK_TOKENS] = {};
        for (int i = lane; i < d; i += WARP_LANES) {
            const float weight = gate[int64(expert) * ldg + i];
#pragma unroll
            for (int token = 0; token < BLOCK_TOKENS; ++token) {
                sums[token] = fmaf(to_float(rows[token * d + i]), weight, sums[token]);
            }
        }
#pragma unroll
        for (int token = 0; token < BLOCK_TOKENS; ++token) {
            const float sum = warp_sum(sums[token]);
            if (lane == 0 && token < tokens) {
                z[int64(token) * ldz + expert] = sum;
            }
        }
    }
}

// The expert of the largest choice, the lowest of equals, that is left; in every lane. Bit j of a lane's `taken` is expert
// 32j + lane.
DEVICE int best_left(const float* choice, uint32 taken, int experts) {
    const int lane = threadIdx.x % WARP_LANES;
    uint32 best = 0;
    int at = experts;
    for (int i = lane; i < experts; i += WARP_LANES) {
        const bool is_left = (taken >> i / WARP_LANES & 1) == 0;
        const uint32 key = ordered(choice[i]);
        if (is_left && (at == experts || key > best)) {
            best = key;
            at = i;
        }
    }
#pragma unroll
    for (int lanes = WARP_LANES / 2; lanes != 0; lanes /= 2) {
        const uint32 other = __shfl_xor_sync(FULL_WARP, best, lanes);
        const int other_at = __shfl_xor_sync(FULL_WARP, at, lanes);
        const bool is_better = other_at != experts && (at == experts || other > best || (other == best && other_at < at));
        best = is_better ? other : best;
        at = is_better ? other_at : at;
    }
    return at;
}

extern "C" __global__ void __launch_bounds__(BLOCK_WARPS* WARP_LANES)
router(const bf16* __restrict__ x, const float* __restrict__ gate, const float* __restrict__ bias, float* __restrict__ z,
       float* __restrict__ r, float* __restrict__ c, int* __restrict__ chosen, float* __restrict__ w, int n, int d, int experts,
       int k, int ldx, int ldg, int ldz, int ldk) {
    SHARED_ARRAY(float, shared, BLOCK_TOKENS * max((d + 1) / 2, 2 * experts));
    bf16* const rows = reinterpret_cast<bf16*>(shared);
    float* const scores = shared;
    float* const choice = scores + BLOCK_TOKENS * experts;
    const int first = blockIdx.x * BLOCK_TOKENS;
    const int tokens = min(BLOCK_TOKENS, n - first);
    for (int i = threadIdx.x; i < BLOCK_TOKENS * d; i += BLOCK_WARPS * WARP_LANES) {
        const int token = i / d;
        rows[i] = token < tokens ? x[int64(first + token) * ldx + i % d] : bf16{0};
    }
    __syncthreads();
    score_experts(rows, gate, z + int64(first) * ldz, tokens, experts, d, ldg, ldz);
    __syncthreads(); // the logits are in memory, and nobody reads the rows any more
    for (int i = threadIdx.x; i < tokens * experts; i += BLOCK_WARPS * WARP_LANES) {
        const int64 out = int64(first + i / experts) * ldz + i % experts;
        const float logit = z[out];
        const float score = 1.f / (1.f + expf(-logit));
        r[out] = score;
        c[out] = score + bias[i % experts];
        scores[i] = score;
        choice[i] = score + bias[i % experts];
    }
    __syncthreads();

    // A warp chooses for a token: lane s keeps the s-th choice.
    const int lane = threadIdx.x % WARP_LANES;
    for (int token = threadIdx.x / WARP_LANES; token < tokens; token += BLOCK_WARPS) {
        uint32 taken = 0;
        int mine = 0;
        float score = 0.f;
        float sum = 0.f;
        for (int slot = 0; slot < k; ++slot) {
            const int expert = best_left(choice + token * experts, taken, experts);
            taken |= lane == expert % WARP_LANES ? 1u << expert / WARP_LANES : 0;
            const float of_expert = scores[token * experts + expert];
            sum += of_expert;
            mine = lane == slot ? expert : mine;
            score = lane == slot ? of_expert : score;
        }
        if (lane < k) {
            const int64 out = int64(first + token) * ldk + lane;
            chosen[out] = mine;
            w[out] = score / sum;
        }
    }
}
