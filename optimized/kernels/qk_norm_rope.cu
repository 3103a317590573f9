// QK norm and RoPE: normalizes the query and key projections, rotates them, and keeps keys and values.
//
// ```text
// q̃ᵢ = rope(qk_norm(qᵢ; w))        K[t] = rope(qk_norm(kᵢ; u))        V[t] = vᵢ        t = first + i
// ```
//
// - Launch: n blocks of THREADS threads, block i owns token i.
// - Requires: K1 x holds n rows of ldx values: heads·d of q, then groups·d of k, then as many of v; K2 w holds heads·d values,
//   u groups·d; K3 cos and sin hold n rows of ldt values, of which 2h count; K4 2h even and at most d, d ≤ D; K5 q̃ holds n rows
//   of heads·D values, K and V first + n rows of groups·D, and nothing overlaps; K6 4 bytes of shared memory for each warp.
// - Precision: f32; each sum serial per thread, then block_sum; R1 at q̃ and K, to nearest even, is the only rounding to bf16.
//   Channels from d to D become 0.

#include "reduce.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

struct Shared {
    float partial[THREADS / WARP_LANES];
};

// What a block does to one projection of its token.
struct Projection {
    const bf16* x;
    const bf16* w;
    bf16* y;
    int heads;
};

// 1 / √(ε + mean x²).
DEVICE float scale_of(const Projection& p, int d, float eps, Shared& shared) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < p.heads * d; i += THREADS) {
        const float value = to_float(p.x[i]);
        sum = fmaf(value, value, sum);
    }
    const float total = block_sum(sum, shared.partial);
    __syncthreads(); // `partial` may be written again
    return rsqrtf(eps + total / float(p.heads * d));
}

// Threads take pairs of channels c and c + h that rotate together, then the channels that pass.
DEVICE void write_rotated(const Projection& p, const float* cos, const float* sin, int d, int h, float scale) {
    const int columns = D - h;
    for (int i = threadIdx.x; i < p.heads * columns; i += THREADS) {
        const int head = i / columns;
        const int c = i % columns;
        const bf16* const x = p.x + head * d;
        const bf16* const w = p.w + head * d;
        bf16* const y = p.y + head * D;
        if (c < h) {
            const float low = to_float(w[c]) * to_float(x[c]) * scale;
            const float high = to_float(w[c + h]) * to_float(x[c + h]) * scale;
            y[c] = to_bf16(low * cos[c] - high * sin[c]);             // R1
            y[c + h] = to_bf16(high * cos[c + h] + low * sin[c + h]); // R1
        } else {
            const int passed = c + h;
            y[passed] = to_bf16(passed < d ? to_float(w[passed]) * to_float(x[passed]) * scale : 0.f); // R1
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
qk_norm_rope(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ u, const float* __restrict__ cos,
             const float* __restrict__ sin, bf16* __restrict__ q, bf16* __restrict__ keys, bf16* __restrict__ values, int heads,
             int groups, int d, int h, int first, int ldx, int ldt, float eps) {
    SHARED_MEMORY(Shared, shared);
    const int token = blockIdx.x;
    const bf16* const row = x + int64(token) * ldx;
    const int64 kept = (int64(first) + token) * groups * D;
    const Projection query = {row, w, q + int64(token) * heads * D, heads};
    const Projection key = {row + heads * d, u, keys + kept, groups};
    const float of_query = scale_of(query, d, eps, shared);
    const float of_key = scale_of(key, d, eps, shared);
    write_rotated(query, cos + int64(token) * ldt, sin + int64(token) * ldt, d, h, of_query);
    write_rotated(key, cos + int64(token) * ldt, sin + int64(token) * ldt, d, h, of_key);

    const bf16* const value = row + (heads + groups) * d;
    for (int i = threadIdx.x; i < groups * D; i += THREADS) {
        const int c = i % D;
        values[kept + i] = c < d ? value[i / D * d + c] : bf16{0};
    }
}
