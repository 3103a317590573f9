// Patch embedding: a linear map of the pixels of each patch.
//
// ```text
// yᵢⱼ = Σ ρ(xᵢ,ctpq) · ρ(wⱼ,ctpq)        over c < C, t < T, p < P, q < P
// ```
//
// - Launch: patch_embedding_round: ⌈count/THREADS⌉ blocks of THREADS threads, thread i owns vector i: ρ of x, or of w. The sum
//   is `linear`.
// - Requires: K1 wide and rounded hold `count` vectors of 8 values, f32 and bf16, 16-byte aligned, and do not overlap. Padding
//   that is 0 stays 0.
// - Precision: R1 at both ρ, to nearest even, to bf16; the sum, and R2 at y, are `linear`'s.

#include "bf16x8.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
patch_embedding_round(const float* __restrict__ wide, bf16* __restrict__ rounded, int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const float4* const from = reinterpret_cast<const float4*>(wide) + int64(i) * 2;
    const float4 low = from[0];
    const float4 high = from[1];
    vectors(rounded)[i] = pack({low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}); // R1
}
