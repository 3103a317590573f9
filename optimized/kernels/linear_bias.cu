// Linear with bias: each row of x times the transpose of a weight, plus a row that is the same for all.
//
// ```text
// yᵢⱼ = bⱼ + Σₖ xᵢₖ · wⱼₖ
// ```
//
// - Launch: as `linear`: linear_bias_tiles as linear_tiles, linear_bias_few_rows as linear_few_rows.
// - Requires: K1 to K6 as `linear`; K7 b holds m values and does not overlap y.
// - Precision: the sum is `linear`'s, to the bit; b is added in f32; one rounding, R1, to nearest even, to bf16. Columns of
//   y from m on become 0.

#include "linear.cuh"

static_assert(OUT == 16, "y is bf16");

// A column's value of b is added to its sums.
struct Bias {
    const bf16* b;

    __device__ __forceinline__ float operator()(float sum, int col) const {
        return sum + to_float(b[col]); // R1 where it is stored
    }
};

extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
linear_bias_tiles(const bf16* __restrict__ x, Weight w, const bf16* __restrict__ b, bf16* __restrict__ y,
                  int n, int m, int k, int ldx, int ldy) {
    multiply_tile({x, w, y, n, m, k, ldx, ldy}, Bias{b});
}

extern "C" __global__ void __launch_bounds__(8 * WARP_LANES)
linear_bias_few_rows(const bf16* __restrict__ x, Weight w, const bf16* __restrict__ b,
                     bf16* __restrict__ y, int n, int m, int k, int ldx, int ldy) {
    multiply_few_rows({x, w, y, n, m, k, ldx, ldy}, Bias{b});
}
