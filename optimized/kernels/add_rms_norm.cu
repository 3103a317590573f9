// Residual and RMSNorm: adds a branch to the residual stream, then normalizes the stored sum.
//
// ```text
// s = residual(x, f)        y = rms_norm(s; w)
// ```
//
// - Launch: n blocks of THREADS threads, block i owns row i.
// - Requires: K1 x and f hold n rows of ld values and w one, and their values from d on are 0; K2 1 ≤ d ≤ ld, ld a
//   multiple of 8, all rows 16-byte aligned; K3 s and y hold n rows of ld values, and overlap nothing; K4 4 bytes of
//   shared memory for each warp; K5 one is 0, or 1 where the norm multiplies by 1 + w.
// - Precision: f32; the sum serial per thread, then block_sum; w·s is exact, 1 + w is rounded; two roundings to bf16, to
//   nearest even: R1 at s, R2 at y.
// - Variants: D08 both; D60 the norm reads s as it is stored; D10 without `rms_norm`'s R1.

#include "reduce.cuh"
#include "rms.cuh"

static_assert(THREADS % WARP_LANES == 0, "a block is whole warps");

struct Shared {
    float partial[THREADS / WARP_LANES];
};

extern "C" __global__ void __launch_bounds__(THREADS)
add_rms_norm(const bf16* __restrict__ x, const bf16* __restrict__ f, const bf16* __restrict__ w, bf16* __restrict__ s,
             bf16* __restrict__ y, int d, int ld, float eps, float one) {
    SHARED_MEMORY(Shared, shared);
    const int64 row = int64(blockIdx.x) * ld;
    float sum = 0.f;
    for (int i = threadIdx.x; i < ld / VECTOR; i += THREADS) {
        const Floats8 stream = unpack(vectors(x + row)[i]);
        const Floats8 branch = unpack(vectors(f + row)[i]);
        Floats8 added;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            added.values[j] = stream.values[j] + branch.values[j];
        }
        const uint4 rounded = pack(added); // R1
        vectors(s + row)[i] = rounded;
        sum = add_squares(sum, unpack(rounded));
    }
    const float r = rsqrtf(eps + block_sum(sum, shared.partial) / float(d));
    scale_row(s + row, w, y + row, d, ld, r, one); // R2
}
