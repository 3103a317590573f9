// RMSNorm: scales each row to unit root mean square, then by a learned weight.
//
// ```text
// yᵢⱼ = mⱼ · ρ(xᵢⱼ · rᵢ)        rᵢ = 1 / √(ε + (1/d)·Σₖ xᵢₖ²)        mⱼ = wⱼ, or 1 + wⱼ
// ```
//
// - Launch: n blocks of THREADS threads, block i owns row i.
// - Requires: K1 x holds n rows of ld values and w one, and their values from d on are 0; K2 1 ≤ d ≤ ld, ld a multiple
//   of 8, all rows 16-byte aligned; K3 y holds n rows of ld values and overlaps neither; K4 4 bytes of shared memory
//   for each warp; K5 one is 0, or 1 where m is 1 + w.
// - Precision: f32; the sum serial per thread, then block_sum; w·x is exact, 1 + w is rounded; R2 at y, to nearest
//   even, is the only rounding to bf16.
// - Variants: D08 both; D10 without R1, so ρ rounds nothing.

#include "reduce.cuh"
#include "rms.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

struct Shared {
    float partial[THREADS / WARP_LANES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
rms_norm(const bf16* __restrict__ x, const bf16* __restrict__ w, bf16* __restrict__ y, int d, int ld, float eps, float one) {
    SHARED_MEMORY(Shared, shared);
    const int64 row = int64(blockIdx.x) * ld;
    float sum = 0.f;
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        sum = add_squares(sum, unpack(vectors(x + row)[i]));
    }
    const float r = rsqrtf(eps + block_sum(sum, shared.partial) / float(d));
    scale_row(x + row, w, y + row, d, ld, r, one); // R2
}
