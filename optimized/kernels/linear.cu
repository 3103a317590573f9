// Linear: each row of x times the transpose of a weight.
//
// ```text
// yᵢⱼ = Σₖ xᵢₖ · wⱼₖ
// ```
//
// - Launch: linear_tiles: ⌈n/TILE_ROWS⌉ × ⌈m/TILE_COLS⌉ blocks of 32·WARPS_DOWN·WARPS_ACROSS threads, block (i, j) owns
//   the tile of y at row i·TILE_ROWS, column j·TILE_COLS. linear_few_rows: ⌈m/16⌉ blocks of 1 to 8 warps, block j owns
//   the columns of y from 16j on; warp v sums chunks v, v + warps, … of k.
// - Requires: K1 x holds n rows of ldx values, w m rows; K2 1 ≤ n, m and 1 ≤ k ≤ ldx, w.ld; K3 y holds n rows of ldy
//   values, m ≤ ldy, and overlaps neither; K4 ldx and ldy multiples of 8, all rows 16-byte aligned; K5 n ≤ 16 in
//   linear_few_rows; K6 shared memory: linear_tiles sizeof(Block::Shared), linear_few_rows a Ring for each warp, a Sums for each
//   chunk and FewX::values for each warp; K8 where WEIGHTS = 8, block_bits ≥ 4, scales are finite, there is one for each
//   block, and rows of them are whole words of 4 bytes; K9 where WARPGROUPS = 1, a Hopper GPU.
// - Bytes: a row of w is 2k of them where WEIGHTS = 16, and k + k/32 + 4 where WEIGHTS = 8, with the scales of M2.7 (f32 for
//   128 values) or M3 (E8M0 for 32) and where they are: half of what a decode reads, which is weights, nearly all of it.
// - Precision: bf16 products summed as gemm.cuh says, the same in both entries, and on warpgroups; an E4M3 weight is q·s in
//   f32, rounded to nearest even, to bf16, before; OUT = 16 rounds once, to nearest even, to bf16; OUT = 32 keeps f32. Columns
//   of y from m on become 0.

#include "linear.cuh"

// A sum is stored as it is.
struct Plain {
    __device__ __forceinline__ float operator()(float sum, int) const {
        return sum;
    }
};

extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
linear_tiles(const bf16* __restrict__ x, Weight w, Out::Value* __restrict__ y, int n, int m, int k, int ldx,
             int ldy) {
    multiply_tile({x, w, y, n, m, k, ldx, ldy}, Plain());
}

extern "C" __global__ void __launch_bounds__(8 * WARP_LANES)
linear_few_rows(const bf16* __restrict__ x, Weight w, Out::Value* __restrict__ y, int n, int m, int k,
                int ldx, int ldy) {
    multiply_few_rows({x, w, y, n, m, k, ldx, ldy}, Plain());
}
