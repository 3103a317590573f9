// GELU: each value times the share of a normal distribution that lies below it.
//
// ```text
// aᵢⱼ = xᵢⱼ · Φ(xᵢⱼ)        Φ(x) = ½·(1 + erf(x/√2))
// ```
//
// - Launch: ⌈count/THREADS⌉ blocks of THREADS threads, thread i owns vector i.
// - Requires: K1 x and a hold `count` vectors of 8 values, 16-byte aligned, and do not overlap. Padding that is 0 stays 0.
// - Precision: f32, Φ as ½·erfc(−x/√2), which is no difference far below 0; R1 at a, to nearest even.
// - Variants: D50 the exact one only.

#include "bf16x8.cuh"

constexpr float INVERSE_ROOT_OF_2 = 0.70710678118654752f;

extern "C" __global__ void __launch_bounds__(THREADS)
gelu(const bf16* __restrict__ x, bf16* __restrict__ a, int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    Floats8 values = unpack(vectors(x)[i]);
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
        const float share = 0.5f * erfcf(-values.values[j] * INVERSE_ROOT_OF_2);
        values.values[j] *= share;
    }
    vectors(a)[i] = pack(values); // R1
}
