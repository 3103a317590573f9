// Dense FFN: a feed-forward network that every token goes through.
//
// ```text
// g = linear(x; w₁)        u = linear(x; w₃)        y = linear(activation(g, u); w₂)
// ```
//
// - Launch: dense_ffn_gate_up: ⌈n/TILE_ROWS⌉ × ⌈2·ldi/TILE_COLS⌉ blocks of 32·WARPS_DOWN·WARPS_ACROSS threads, block (i,
//   j) owns rows of tile i, columns from j·TILE_COLS/2 on. The down projection is `linear`.
// - Requires: K1 x holds n rows of ldx values, w 2I: the gate's, then the up projection's; K2 1 ≤ n, I and 1 ≤ h ≤ ldx; K3
//   hidden holds n rows of ldi values, I ≤ ldi, and overlaps neither; K4 ldx and ldi multiples of 8, all rows 16-byte
//   aligned, w as `linear`'s K8 has it; K5 shared memory: sizeof(Block::Shared); K6 where WARPGROUPS = 1, a Hopper GPU.
// - Bytes: a row of w is as many as `linear`'s: where WEIGHTS = 8, half.
// - Precision: bf16 products summed as gemm.cuh says; the activation f32, rounded once, to nearest even, to bf16.

#include "gate_up.cuh"

extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
dense_ffn_gate_up(const bf16* __restrict__ x, Weight w, bf16* __restrict__ hidden, int n, int h,
                  int intermediate, int ldx, int ldi, float alpha, float limit, float beta, float lowest) {
    SHARED_MEMORY(Block::Shared, shared);
    const int first_row = blockIdx.x * TILE_ROWS;
    const int first_col = blockIdx.y * TILE_COLS / 2;
    const auto x_row = [=](int i) { return row_of(x, first_row + i, n, ldx, h); };
    const auto w_row = [=](int j) { return gate_up_row(w, 0, j, first_col, intermediate, h); };
    Block::Sums sums = {}; // WARP_ROWS × WARP_COLS
    Block::multiply(shared, x_row, w_row, h, sums);

    const Activation activation = {alpha, limit, beta, lowest};
    Block::for_each_row(n - first_row, [&](int row, int i, int half) {
        store_activated<Block>(sums, i, half, activation, first_col, hidden + int64(first_row + row) * ldi, ldi);
    });
}
