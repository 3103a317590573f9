// Router: scores each expert, chooses k by score plus bias, and weighs them by their share of the scores.
//
// ```text
// rᵢₑ = σ(zᵢₑ)        Cᵢ = the k experts of largest rᵢₑ + bₑ        wᵢₑ = rᵢₑ / Σ rᵢ꜀ over c in Cᵢ
// ```
//
// - Launch: router_scores: ⌈n/BLOCK_TOKENS⌉ × ⌈E/BLOCK_EXPERTS⌉ blocks of BLOCK_WARPS warps, block (i, j) owns BLOCK_TOKENS
//   tokens from i·BLOCK_TOKENS on and BLOCK_EXPERTS = BLOCK_WARPS·WARP_EXPERTS experts from j·BLOCK_EXPERTS on, a warp
//   WARP_EXPERTS of them; or router_scores_few: n × ⌈E/FEW_WARPS⌉ blocks of FEW_WARPS warps, a warp an expert. router_choose: n blocks of CHOOSE_THREADS threads, block i owns token i.
// - Requires: K1 x holds n rows of ldx values, g E rows of ldg, z n rows of ldz, r and b and C and w likewise; K2 1 ≤ k ≤
//   E, k ≤ ldk ≤ 32 ≤ CHOOSE_THREADS, E ≤ 1024; K3 shared memory: router_scores_few a row of x and FEW_WARPS
//   of g, router_choose twice E values, up to a multiple of 4, and 32; rows of x and g are 16-byte aligned, ldx a multiple of 8,
//   ldg of 4; K4 nothing that is written overlaps anything.
// - Bytes: each block of tokens reads all of g; a warp has AHEAD loads of each of its rows on their way at once, or for few tokens
//   all of its row.
// - Precision: f32 throughout. zᵢₑ = Σ xᵢₖ·gₑₖ fused, lane l sums k = l, l + 32, … upward, then warp_sum. The same for a
//   token whatever tokens are beside it. Of equal experts the lowest is chosen first; NaN counts as larger than any
//   number. Columns of C and w from k on become 0.

#include "bf16x8.cuh"
#include "ordered.cuh"
#include "reduce.cuh"

constexpr int MOST_CHOSEN = WARP_LANES;
// Keys that are compared at once.
constexpr int QUAD = 4;

// Logits. A token or an expert beyond the last is the last once more, and is not stored.
extern "C" __global__ void __launch_bounds__(BLOCK_WARPS* WARP_LANES)
router_scores(const bf16* __restrict__ x, const float* __restrict__ gate, float* __restrict__ z, int n, int d, int experts,
              int ldx, int ldg, int ldz) {
    const int lane = threadIdx.x % WARP_LANES;
    const int token = blockIdx.x * BLOCK_TOKENS;
    const int expert = (blockIdx.y * BLOCK_WARPS + threadIdx.x / WARP_LANES) * WARP_EXPERTS;
    if (expert >= experts) {
        return;
    }
    const bf16* rows[BLOCK_TOKENS];
    const float* gates[WARP_EXPERTS];
#pragma unroll
    for (int t = 0; t < BLOCK_TOKENS; ++t) {
        rows[t] = x + int64(min(token + t, n - 1)) * ldx;
    }
#pragma unroll
    for (int e = 0; e < WARP_EXPERTS; ++e) {
        gates[e] = gate + int64(min(expert + e, experts - 1)) * ldg;
    }
    float sums[BLOCK_TOKENS][WARP_EXPERTS] = {};
    for (int base = lane; base < d; base += AHEAD * WARP_LANES) {
        bf16 values[AHEAD][BLOCK_TOKENS];
        float weights[AHEAD][WARP_EXPERTS];
#pragma unroll
        for (int step = 0; step < AHEAD; ++step) {
            const int i = min(base + step * WARP_LANES, d - 1);
#pragma unroll
            for (int e = 0; e < WARP_EXPERTS; ++e) {
                weights[step][e] = gates[e][i];
            }
#pragma unroll
            for (int t = 0; t < BLOCK_TOKENS; ++t) {
                values[step][t] = rows[t][i];
            }
        }
#pragma unroll
        for (int step = 0; step < AHEAD; ++step) {
            if (base + step * WARP_LANES < d) {
#pragma unroll
                for (int t = 0; t < BLOCK_TOKENS; ++t) {
#pragma unroll
                    for (int e = 0; e < WARP_EXPERTS; ++e) {
                        sums[t][e] = fmaf(to_float(values[step][t]), weights[step][e], sums[t][e]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int t = 0; t < BLOCK_TOKENS; ++t) {
#pragma unroll
        for (int e = 0; e < WARP_EXPERTS; ++e) {
            const float sum = warp_sum(sums[t][e]);
            if (lane == 0 && token + t < n && expert + e < experts) {
                z[int64(token + t) * ldz + expert + e] = sum;
            }
        }
    }
}

// The same of few tokens: rows are on their way as a whole.
extern "C" __global__ void __launch_bounds__(FEW_WARPS* WARP_LANES)
router_scores_few(const bf16* __restrict__ x, const float* __restrict__ gate, float* __restrict__ z, int d, int experts, int ldx,
                  int ldg, int ldz) {
    SHARED_ARRAY(float, gates, FEW_WARPS * ldg + ldx / 2);
    const int warp = threadIdx.x / WARP_LANES;
    const int lane = threadIdx.x % WARP_LANES;
    const int64 token = blockIdx.x;
    const int expert = blockIdx.y * FEW_WARPS + warp;
    float* const own = gates + warp * ldg;
    bf16* const row = reinterpret_cast<bf16*>(gates + FEW_WARPS * ldg);
    if (expert < experts) {
        for (int i = lane * QUAD; i < ldg; i += WARP_LANES * QUAD) {
            cp_async16(own + i, gate + int64(expert) * ldg + i, 16);
        }
    }
    for (int i = threadIdx.x * VECTOR; i < ldx; i += FEW_WARPS * WARP_LANES * VECTOR) {
        cp_async16(row + i, x + token * ldx + i, 16);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    if (expert >= experts) {
        return;
    }
    float sum = 0.f;
#pragma unroll 8
    for (int i = lane; i < d; i += WARP_LANES) {
        sum = fmaf(to_float(row[i]), own[i], sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) {
        z[token * ldz + expert] = sum;
    }
}

// How many of four keys, from number `first` on, go before key `mine` of number `i`.
DEVICE int before(uint4 keys, int first, uint32 mine, int i) {
    const uint32 others[QUAD] = {keys.x, keys.y, keys.z, keys.w};
    int count = 0;
#pragma unroll
    for (int j = 0; j < QUAD; ++j) {
        count += others[j] > mine || (others[j] == mine && first + j < i);
    }
    return count;
}

// Scores, choices, and the k experts that have fewer than k before them: each finds its own slot.
extern "C" __global__ void __launch_bounds__(CHOOSE_THREADS)
router_choose(const float* __restrict__ z, const float* __restrict__ bias, float* __restrict__ r, float* __restrict__ c,
              int* __restrict__ chosen, float* __restrict__ w, int experts, int k, int ldz, int ldk) {
    const int quads = (experts + QUAD - 1) / QUAD;
    SHARED_ARRAY(uint4, keys, 2 * quads + MOST_CHOSEN / QUAD);
    uint32* const key = reinterpret_cast<uint32*>(keys);
    float* const scores = reinterpret_cast<float*>(keys + quads);
    float* const best = reinterpret_cast<float*>(keys + 2 * quads);
    const int64 row = int64(blockIdx.x) * ldz;
    for (int i = threadIdx.x; i < quads * QUAD; i += CHOOSE_THREADS) {
        if (i >= experts) {
            key[i] = 0; // before no float
            continue;
        }
        const float score = 1.f / (1.f + expf(-z[row + i]));
        const float choice = score + bias[i];
        r[row + i] = score;
        c[row + i] = choice;
        scores[i] = score;
        key[i] = ordered(choice);
    }
    __syncthreads();
    const int64 out = int64(blockIdx.x) * ldk;
    for (int i = threadIdx.x; i < experts; i += CHOOSE_THREADS) {
        int slot = 0;
        for (int quad = 0; quad < quads; ++quad) {
            slot += before(keys[quad], quad * QUAD, key[i], i);
        }
        if (slot < k) {
            chosen[out + slot] = i;
            best[slot] = scores[i];
        }
    }
    __syncthreads();
    const int slot = threadIdx.x;
    if (slot < k) {
        float sum = 0.f;
        for (int other = 0; other < k; ++other) {
            sum += best[other];
        }
        w[out + slot] = best[slot] / sum;
    } else if (slot < ldk) {
        w[out + slot] = 0.f;
        chosen[out + slot] = 0;
    }
}
