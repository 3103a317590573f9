// Vision attention: each patch's softmax-weighted mean of the values of its own image, earlier and later.
//
// ```text
// o(h,i) = Σⱼ ρ(p(h,i,j))·v(h,j)        p = softmax over j in S(i) of σ·q(h,i)·k(h,j)
// ```
//
// - Launch: segments·tiles × H blocks of 4 warps, block (s·tiles + i, h) owns queries i·PREFILL_ROWS to i·PREFILL_ROWS +
//   PREFILL_ROWS − 1 of head h of segment s, if it has so many.
// - Requires: K1 q, k and v hold n rows of H·D values, 16-byte aligned; K2 channels from d to D are 0; K3 segment s is rows
//   offsets[s] to offsets[s + 1] − 1, at least one, at most tiles·PREFILL_ROWS, of n; K4 o holds n rows of ld values, H·d ≤
//   ld; K5 shared memory: sizeof(Prefill); nothing overlaps.
// - Precision: as `attention`; tiles and groups of keys are anchored at the segment's first row, so that a query's bits
//   depend on its segment only.
// - Variants: D48 both; for one of them the caller makes all rows one segment.

#include "prefill.cuh"

extern "C" __global__ void __launch_bounds__(PREFILL_THREADS, 2)
vision_attention(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v, bf16* __restrict__ o,
                 const int* __restrict__ offsets, int tiles, int d, int ld, float scale) {
    SHARED_MEMORY(Prefill, shared);
    const int segment = blockIdx.x / tiles;
    const int first_key = offsets[segment];
    const int keys = offsets[segment + 1] - first_key;
    const int first_row = blockIdx.x % tiles * PREFILL_ROWS;
    if (first_row >= keys) {
        return;
    }
    const int head = blockIdx.y;
    const int stride = gridDim.y * D;
    const int64 from = int64(first_key) * stride + head * D;
    const int queries = min(PREFILL_ROWS, keys - first_row);
    const int positions[2] = {keys - 1, keys - 1};
    const auto out = [=](int query) { return o + (int64(first_key) + first_row + query) * ld + head * d; };
    attend(shared, {q + from + int64(first_row) * stride, k + from, v + from, stride, stride, queries, keys}, positions, scale,
           out, d);
}
