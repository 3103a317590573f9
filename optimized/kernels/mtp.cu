// MTP input: what a module of multi-token prediction makes its residual stream from.
//
// ```text
// uᵢ = Wₕ·hᵢ + eᵢ        or  uᵢ = Wₑₕ·[norm(eᵢ; wₑ); norm(hᵢ; wₕ)],  e₀ = 0
// ```
//
// - Launch: n × 2 blocks of THREADS threads; block (i, 0) owns the half of row i that is made of e, block (i, 1) that of h. It
//   makes [norm(eᵢ; wₑ); norm(hᵢ; wₕ)]; products and the sum are `linear`'s and `residual`'s.
// - Requires: K1 e and h hold n rows of ld values, w_e and w_h one, and their values from d on are 0; K2 1 ≤ d ≤ ld, ld a multiple
//   of 8, all their rows 16-byte aligned; K3 y holds n rows of ldy ≥ 2·d values and overlaps nothing; K4 4 bytes of shared memory
//   for each warp; K5 one is 0, or 1 where norms multiply by 1 + w; K6 `zeroed` is the row whose e counts as 0, or −1.
// - Precision: as in `rms_norm`: f32; the sum serial per thread, then block_sum; R2 at y, to nearest even.
// - Variants: D17 e₀ zeroed or kept; D08 both; D10 without `rms_norm`'s R1. The embedding is first.

#include "reduce.cuh"
#include "rms.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

struct Shared {
    float partial[THREADS / WARP_LANES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
mtp(const bf16* __restrict__ e, const bf16* __restrict__ w_e, const bf16* __restrict__ h, const bf16* __restrict__ w_h,
    bf16* __restrict__ y, int d, int ld, int ldy, float eps, float one, int zeroed) {
    SHARED_MEMORY(Shared, shared);
    const bool is_hidden = blockIdx.y == 1;
    const bool is_zero = !is_hidden && int(blockIdx.x) == zeroed;
    const bf16* const x = (is_hidden ? h : e) + int64(blockIdx.x) * ld;
    const bf16* const w = is_hidden ? w_h : w_e;
    float sum = 0.f;
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        sum = is_zero ? sum : add_squares(sum, unpack(vectors(x)[i]));
    }
    const float r = rsqrtf(eps + block_sum(sum, shared.partial) / float(d));
    // What pads a row follows the second half.
    bf16* const half = y + int64(blockIdx.x) * ldy + (is_hidden ? d : 0);
    const int count = is_hidden ? ldy - d : d;
    for (int j = threadIdx.x; j < count; j += THREADS) {
        const bool inside = j < d;
        const float value = inside && !is_zero ? to_float(x[j]) : 0.f;
        const float weight = inside ? one + to_float(w[j]) : 0.f;
        half[j] = to_bf16(weight * (value * r)); // R2
    }
}
