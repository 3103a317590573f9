// Linear: each row of x times the transpose of a weight.
//
// ```text
// yᵢⱼ = Σₖ xᵢₖ · wⱼₖ
// ```
//
// - Launch: linear_tiles: ⌈n/TILE_ROWS⌉ × ⌈m/TILE_COLS⌉ blocks of 32·WARPS_DOWN·WARPS_ACROSS threads, block (i, j) owns
//   the tile of y at row i·TILE_ROWS, column j·TILE_COLS. linear_few_rows: ⌈m/16⌉ blocks of 1 to 8 warps, block j owns
//   the columns of y from 16j on; warp v sums chunks v, v + warps, … of k.
// - Requires: K1 x holds n rows of ldx values, w holds m rows of ldw; K2 1 ≤ n, m and 1 ≤ k ≤ ldx, ldw; K3 y holds n
//   rows of ldy values, m ≤ ldy, and overlaps neither; K4 ldx, ldw and ldy multiples of 8, all rows 16-byte aligned; K5
//   n ≤ 16 in linear_few_rows; K6 shared memory: linear_tiles sizeof(Block::Shared), linear_few_rows a Ring for each
//   warp and a Sums for each chunk.
// - Precision: bf16 products summed as gemm.cuh says, the same in both entries; OUT = 16 rounds once, to nearest even,
//   to bf16; OUT = 32 keeps f32. Columns of y from m on become 0.

#include "linear.cuh"

// A sum is stored as it is.
struct Plain {
    __device__ __forceinline__ float operator()(float sum, int) const {
        return sum;
    }
};

extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
linear_tiles(const bf16* __restrict__ x, const bf16* __restrict__ w, Out::Value* __restrict__ y, int n, int m, int k,
             int ldx, int ldw, int ldy) {
    multiply_tile({x, w, y, n, m, k, ldx, ldw, ldy}, Plain());
}

extern "C" __global__ void __launch_bounds__(8 * WARP_LANES)
linear_few_rows(const bf16* __restrict__ x, const bf16* __restrict__ w, Out::Value* __restrict__ y, int n, int m, int k,
                int ldx, int ldw, int ldy) {
    multiply_few_rows({x, w, y, n, m, k, ldx, ldw, ldy}, Plain());
}
