// Residual: adds what a block computed to the stream it read.
//
// ```text
// yᵢⱼ = xᵢⱼ + fᵢⱼ
// ```
//
// - Launch: ⌈count/THREADS⌉ blocks of THREADS threads, thread i owns vector i.
// - Requires: K1 x, f and y hold `count` vectors of 8 values, 16-byte aligned, and y overlaps neither x nor f. Padding
//   that is 0 stays 0.
// - Precision: f32; R1 at y, to nearest even.

#include "bf16x8.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
residual(const bf16* __restrict__ x, const bf16* __restrict__ f, bf16* __restrict__ y, int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    const Floats8 stream = unpack(vectors(x)[i]);
    const Floats8 branch = unpack(vectors(f)[i]);
    Floats8 sum;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
        sum.values[j] = stream.values[j] + branch.values[j];
    }
    vectors(y)[i] = pack(sum); // R1
}
