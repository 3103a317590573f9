// Layer norm: takes the mean off each row, scales it to unit variance, then by a learned weight, and adds a learned bias.
//
// ```text
// yᵢⱼ = bⱼ + wⱼ · (xᵢⱼ − μᵢ) · rᵢ        μᵢ = (1/d)·Σₖ xᵢₖ        rᵢ = 1 / √(ε + (1/d)·Σₖ (xᵢₖ − μᵢ)²)
// ```
//
// - Launch: n blocks of THREADS threads, block i owns row i.
// - Requires: K1 x holds n rows of ld values, w and b one each, and x's values from d on are 0; K2 1 ≤ d ≤ ld, ld a
//   multiple of 8, all rows 16-byte aligned; K3 y holds n rows of ld values and overlaps nothing; K4 8 bytes of shared
//   memory for each warp.
// - Precision: f32; the sum of x, then that of the squared deviations, each serial per thread, then block_sum; R1 at y, to
//   nearest even, is the only rounding to bf16.

#include "bf16x8.cuh"
#include "reduce.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

struct Shared {
    float sums[THREADS / WARP_LANES];
    float squares[THREADS / WARP_LANES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
layer_norm(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ b, bf16* __restrict__ y, int d,
           int ld, float eps) {
    SHARED_MEMORY(Shared, shared);
    const int64 row = int64(blockIdx.x) * ld;
    float sum = 0.f;
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        const Floats8 values = unpack(vectors(x + row)[i]);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            sum += values.values[j];
        }
    }
    const float mean = block_sum(sum, shared.sums) / float(d);
    float squares = 0.f;
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        const Floats8 values = unpack(vectors(x + row)[i]);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            const float deviation = i * VECTOR + j < d ? values.values[j] - mean : 0.f;
            squares = fmaf(deviation, deviation, squares);
        }
    }
    const float r = rsqrtf(eps + block_sum(squares, shared.squares) / float(d));
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        const Floats8 values = unpack(vectors(x + row)[i]);
        const Floats8 weights = unpack(vectors(w)[i]);
        const Floats8 biases = unpack(vectors(b)[i]);
        Floats8 scaled;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            const float normalized = (values.values[j] - mean) * r;
            scaled.values[j] = i * VECTOR + j < d ? fmaf(weights.values[j], normalized, biases.values[j]) : 0.f;
        }
        vectors(y + row)[i] = pack(scaled); // R1
    }
}
