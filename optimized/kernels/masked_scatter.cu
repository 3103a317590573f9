// Masked scatter: puts rows of features, one after the other, in the places of the rows that are marked.
//
// ```text
// yᵢ = f₍ᵣ₍ᵢ₎₎ where mᵢ, else xᵢ        r(i) = how many of m are true before i
// ```
//
// - Launch: k blocks of THREADS threads, block r owns the r-th row that is marked.
// - Requires: K1 places holds the k marked rows' numbers, upward, each below n; K2 f and y have rows of ld values, ld a
//   multiple of 8, 16-byte aligned; K3 y holds the n rows of x, and overlaps nothing else.
// - Precision: values are copied; f is bf16, so that R1 changes none.

#include "bf16x8.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
masked_scatter(const int* __restrict__ places, const bf16* __restrict__ f, bf16* __restrict__ y, int ld) {
    const uint4* const from = vectors(f + int64(blockIdx.x) * ld);
    uint4* const to = vectors(y + int64(places[blockIdx.x]) * ld);
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        to[i] = from[i];
    }
}
