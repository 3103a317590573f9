// QK norm and RoPE: normalizes the query and key projections, rotates them, and keeps keys and values.
//
// ```text
// q̃ᵢ = rope(qk_norm(qᵢ; w))        K[t] = rope(qk_norm(kᵢ; u))        V[t] = vᵢ        t = first + i
// ```
//
// - Of ranks: qk_norm_rope_squares gives sumsᵢ = (Σ qᵢ², Σ kᵢ²); those of all ranks are what the norms of qk_norm_rope_sharded
//   divide by: √(ε + sumsᵢ/count).
// - Launch: qk_norm_rope and qk_norm_rope_sharded: n × S blocks of THREADS threads, block (i, s) owns every S-th THREADS channels
//   of token i, whose squares all of its blocks sum. qk_norm_rope_squares: n blocks of THREADS threads, block i owns token i.
//   qk_norm_rope_per_head: n × ⌈P/WARPS⌉ blocks, where P is the heads of a row of x, block (i, j) owns heads j·WARPS to
//   j·WARPS + WARPS − 1 of token i, a warp each.
// - Requires: K1 x holds n rows of ldx values: heads·d of q, then groups·d of k, then as many of v; K2 w holds heads·d
//   values, u groups·d; K3 cos and sin hold n rows of ldt values, of which 2h count; K4 2h even and at most d, d ≤ D; K5
//   q̃ holds n rows of heads·D values, K and V first + n rows of groups·D, and nothing overlaps; K6 8 bytes of shared
//   memory for each warp in qk_norm_rope and qk_norm_rope_squares; K7 in qk_norm_rope_per_head, w and u hold d values, for
//   all heads; x goes on with index_heads·index_d of index q and index_d of index k, if there are such heads, with weights,
//   outputs and kept rows of index_width of their own; one is 0, or 1 where the norms multiply by 1 + w; K8 sums holds n rows
//   of lds values, 2 ≤ lds ≤ THREADS: in qk_norm_rope_sharded the squares of all ranks' queries and keys, of which there are
//   of_queries and of_keys.
// - Precision: f32; each sum serial per thread, then block_sum, over ranks outside; R1 at q̃ and K, to nearest even, is the only
//   rounding to bf16. Channels from d to D become 0.

#include "reduce.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

struct Shared {
    float queries[THREADS / WARP_LANES];
    float keys[THREADS / WARP_LANES];
};

// What a block does to one projection of its token.
struct Projection {
    const bf16* x;
    const bf16* w;
    bf16* y;
    int heads;
};

// What the calling thread adds to Σ x² of `count` values.
DEVICE float own_squares(const bf16* x, int count) {
    float sum = 0.f;
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const float value = to_float(x[i]);
        sum = fmaf(value, value, sum);
    }
    return sum;
}

// Σ x² of a row's queries, and of its keys.
DEVICE float2 squares_of(const bf16* row, int queries, int keys, Shared& shared) {
    const float of_queries = own_squares(row, queries);
    const float of_keys = own_squares(row + queries, keys);
    const float all_queries = block_sum(of_queries, shared.queries);
    return {all_queries, block_sum(of_keys, shared.keys)};
}

// A head of a token: its projection of d channels, their weights, and where they go, padded to `width`.
struct Head {
    const bf16* x;
    const bf16* w;
    bf16* y;
    int d;
    int width;
};

// Writes channels c and c + h, which rotate together, for c below h; else the one that passes. Of the weights, `one` is 0, or
// 1 where they are added to 1.
DEVICE void write_channel(const Head& head, int c, const float* cos, const float* sin, int h, float scale, float one) {
    const bf16* const x = head.x;
    const bf16* const w = head.w;
    if (c < h) {
        const float low = (one + to_float(w[c])) * (to_float(x[c]) * scale);
        const float high = (one + to_float(w[c + h])) * (to_float(x[c + h]) * scale);
        head.y[c] = to_bf16(low * cos[c] - high * sin[c]);             // R1
        head.y[c + h] = to_bf16(high * cos[c + h] + low * sin[c + h]); // R1
    } else {
        const int passed = c + h;
        const bool inside = passed < head.d;
        head.y[passed] = to_bf16(inside ? (one + to_float(w[passed])) * (to_float(x[passed]) * scale) : 0.f); // R1
    }
}

DEVICE void write_rotated(const Projection& p, const float* cos, const float* sin, int d, int h, float scale) {
    const int columns = D - h;
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < p.heads * columns; i += gridDim.y * THREADS) {
        const int head = i / columns;
        write_channel({p.x + head * d, p.w + head * d, p.y + head * D, d, D}, i % columns, cos, sin, h, scale, 0.f);
    }
}

// Where all tokens' heads go, of `heads` queries, and `groups` keys and values.
struct Rows {
    bf16* q;
    bf16* keys;
    bf16* values;
    int heads;
    int groups;
};

// Writes the calling block's share of `row`, normed by 1 / √(ε + mean x²) of queries and of keys.
DEVICE void write_token(const bf16* row, const bf16* w, const bf16* u, const Rows& to, const float* cos, const float* sin, int d,
                        int h, int first, float of_query, float of_key) {
    const int token = blockIdx.x;
    const int groups = to.groups;
    const int64 kept = (int64(first) + token) * groups * D;
    write_rotated({row, w, to.q + int64(token) * to.heads * D, to.heads}, cos, sin, d, h, of_query);
    write_rotated({row + to.heads * d, u, to.keys + kept, groups}, cos, sin, d, h, of_key);

    const bf16* const value = row + (to.heads + groups) * d;
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < groups * D; i += gridDim.y * THREADS) {
        const int c = i % D;
        to.values[kept + i] = c < d ? value[i / D * d + c] : bf16{0};
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
qk_norm_rope(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ u, const float* __restrict__ cos,
             const float* __restrict__ sin, bf16* __restrict__ q, bf16* __restrict__ keys, bf16* __restrict__ values, int heads,
             int groups, int d, int h, int first, int ldx, int ldt, float eps) {
    SHARED_MEMORY(Shared, shared);
    const int64 token = blockIdx.x;
    const bf16* const row = x + token * ldx;
    const float2 squares = squares_of(row, heads * d, groups * d, shared);
    const float of_query = rsqrtf(eps + squares.x / float(heads * d));
    const float of_key = rsqrtf(eps + squares.y / float(groups * d));
    write_token(row, w, u, {q, keys, values, heads, groups}, cos + token * ldt, sin + token * ldt, d, h, first, of_query, of_key);
}

// The squares of a rank's queries and keys.
extern "C" __global__ void __launch_bounds__(THREADS)
qk_norm_rope_squares(const bf16* __restrict__ x, float* __restrict__ sums, int heads, int groups, int d, int ldx, int lds) {
    SHARED_MEMORY(Shared, shared);
    const bf16* const row = x + int64(blockIdx.x) * ldx;
    const float2 squares = squares_of(row, heads * d, groups * d, shared);
    const int i = threadIdx.x;
    if (i < lds) {
        sums[int64(blockIdx.x) * lds + i] = i == 0 ? squares.x : i == 1 ? squares.y : 0.f;
    }
}

// As qk_norm_rope does, of a rank that has some of the heads.
extern "C" __global__ void __launch_bounds__(THREADS)
qk_norm_rope_sharded(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ u,
                     const float* __restrict__ cos, const float* __restrict__ sin, const float* __restrict__ sums,
                     bf16* __restrict__ q, bf16* __restrict__ keys, bf16* __restrict__ values, int heads, int groups, int d, int h,
                     int first, int ldx, int ldt, int lds, int of_queries, int of_keys, float eps) {
    const int64 token = blockIdx.x;
    const float* const sum = sums + token * lds;
    const float of_query = rsqrtf(eps + sum[0] / float(of_queries));
    const float of_key = rsqrtf(eps + sum[1] / float(of_keys));
    write_token(x + token * ldx, w, u, {q, keys, values, heads, groups}, cos + token * ldt, sin + token * ldt, d, h, first, of_query,
                of_key);
}

// Normalizes a head by itself, and rotates it.
DEVICE void write_head(const Head& head, const float* cos, const float* sin, int h, float eps, float one) {
    const int lane = threadIdx.x % WARP_LANES;
    float sum = 0.f;
    for (int i = lane; i < head.d; i += WARP_LANES) {
        const float value = to_float(head.x[i]);
        sum = fmaf(value, value, sum);
    }
    const float scale = rsqrtf(eps + warp_sum(sum) / float(head.d));
    for (int c = lane; c < head.width - h; c += WARP_LANES) {
        write_channel(head, c, cos, sin, h, scale, one);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
qk_norm_rope_per_head(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ u,
                      const bf16* __restrict__ index_w, const bf16* __restrict__ index_u, const float* __restrict__ cos,
                      const float* __restrict__ sin, bf16* __restrict__ q, bf16* __restrict__ keys, bf16* __restrict__ values,
                      bf16* __restrict__ index_q, bf16* __restrict__ index_keys, int heads, int groups, int index_heads, int d,
                      int index_d, int index_width, int h, int first, int ldx, int ldt, float eps, float one) {
    const int token = blockIdx.x;
    const int lane = threadIdx.x % WARP_LANES;
    const int64 kept = int64(first) + token;
    const float* const cos_row = cos + int64(token) * ldt;
    const float* const sin_row = sin + int64(token) * ldt;
    const bf16* from = x + int64(token) * ldx;
    // The heads of a token's row, one part after the other.
    int head = blockIdx.y * (THREADS / WARP_LANES) + threadIdx.x / WARP_LANES;
    if (head < heads) {
        bf16* const to = q + (int64(token) * heads + head) * D;
        write_head({from + head * d, w, to, d, D}, cos_row, sin_row, h, eps, one);
        return;
    }
    from += heads * d;
    head -= heads;
    if (head < groups) {
        bf16* const to = keys + (kept * groups + head) * D;
        write_head({from + head * d, u, to, d, D}, cos_row, sin_row, h, eps, one);
        return;
    }
    from += groups * d;
    head -= groups;
    if (head < groups) {
        bf16* const to = values + (kept * groups + head) * D;
        for (int c = lane; c < D; c += WARP_LANES) {
            to[c] = c < d ? from[head * d + c] : bf16{0};
        }
        return;
    }
    from += groups * d;
    head -= groups;
    if (head < index_heads) {
        bf16* const to = index_q + (int64(token) * index_heads + head) * index_width;
        write_head({from + head * index_d, index_w, to, index_d, index_width}, cos_row, sin_row, h, eps, one);
        return;
    }
    from += index_heads * index_d;
    head -= index_heads;
    if (head == 0 && index_heads > 0) {
        bf16* const to = index_keys + kept * index_width;
        write_head({from, index_u, to, index_d, index_width}, cos_row, sin_row, h, eps, one);
    }
}
