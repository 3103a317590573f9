// RoPE: rotates pairs of a head's first channels by an angle that grows with the position.
//
// ```text
// yᵢ = ρ(xᵢ·cᵢ) − ρ(xᵢ₊ₕ·sᵢ)        yᵢ₊ₕ = ρ(xᵢ₊ₕ·cᵢ₊ₕ) + ρ(xᵢ·sᵢ₊ₕ)        c, s = cos, sin of t·θ^(−2i/2h)
// ```
//
// - Launch: n × ⌈heads/WARPS⌉ blocks of THREADS threads, block (i, j) owns heads j·WARPS to j·WARPS + WARPS − 1 of row i, a
//   warp each.
// - Requires: K1 x holds n rows of ldx values, heads·d ≤ ldx; K2 c and s hold n rows of ldt f32 values, 2h ≤ ldt, and are
//   not read where h = 0; K3 2h ≤ d ≤ width; K4 y holds n rows of heads·width values, and overlaps nothing.
// - Precision: f32, ρ rounds nothing; R3 at y, to nearest even. Channels from 2h to d pass; those from d to width become 0.
// - Variants: D01 the first channels; D02 and D52 pairs are halves of all that rotate. The table may be any: of positions, or
//   `axial_rope`'s of patches.

#include "simt.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

extern "C" __global__ void __launch_bounds__(THREADS)
rope(const bf16* __restrict__ x, const float* __restrict__ cos, const float* __restrict__ sin, bf16* __restrict__ y, int heads,
     int d, int width, int h, int ldx, int ldt) {
    const int head = blockIdx.y * (THREADS / WARP_LANES) + threadIdx.x / WARP_LANES;
    if (head >= heads) {
        return;
    }
    const int64 row = blockIdx.x;
    const bf16* const from = x + row * ldx + head * d;
    const float* const c = cos + row * ldt;
    const float* const s = sin + row * ldt;
    bf16* const to = y + (row * heads + head) * width;
    for (int i = threadIdx.x % WARP_LANES; i < width - h; i += WARP_LANES) {
        if (i < h) {
            const float low = to_float(from[i]);
            const float high = to_float(from[i + h]);
            to[i] = to_bf16(low * c[i] - high * s[i]);             // R3
            to[i + h] = to_bf16(high * c[i + h] + low * s[i + h]); // R3
        } else {
            to[i + h] = i + h < d ? from[i + h] : bf16{0};
        }
    }
}
