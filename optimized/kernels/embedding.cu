// Embedding: the row of a table that a token names.
//
// ```text
// yᵢⱼ = E[tᵢ, j]
// ```
//
// - Launch: n blocks of THREADS threads, block i owns row i.
// - Requires: K1 t holds n tokens, each below the rows of E; K2 E and y have rows of ld values, ld a multiple of 8, 16-byte
//   aligned; K3 y holds n rows and overlaps neither.
// - Precision: values are copied.

#include "bf16x8.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
embedding(const int* __restrict__ t, const bf16* __restrict__ table, bf16* __restrict__ y, int ld) {
    const uint4* const from = vectors(table + int64(t[blockIdx.x]) * ld);
    uint4* const to = vectors(y + int64(blockIdx.x) * ld);
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        to[i] = from[i];
    }
}
