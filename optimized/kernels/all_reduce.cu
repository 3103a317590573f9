// All-reduce: adds up what ranks made of a product, each of its own columns of the input, or of a sum of experts.
//
// ```text
// yᵢⱼ = Σᵣ pᵣᵢⱼ        pᵣ = x(r)·w(r)ᵀ, of rank r's columns; or rank r's part of moe(x): of its experts, or its channels of all
// ```
//
// - Launch: ⌈count/THREADS⌉ blocks of THREADS threads, thread i owns vector i; in all_reduce_f32, value i.
// - Requires: K1 1 ≤ ranks ≤ MOST_RANKS; K2 each of the first `ranks` addresses in parts, and y, hold `count` vectors of 8 values,
//   16-byte aligned, in all_reduce_f32 as many values; K3 y overlaps no part; K4 what is read is written by the time of the launch.
//   Padding that is 0 stays 0.
// - Precision: f32, in the order of ranks; R1 to bf16, to nearest even, at each sum of two. all_reduce_f32 adds what norms
//   divide, and keeps f32.

#include "bf16x8.cuh"

constexpr int MOST_RANKS = 64;

// Where the ranks' parts are.
struct Parts {
    const void* at[MOST_RANKS];
};

extern "C" __global__ void __launch_bounds__(THREADS)
all_reduce(Parts parts, bf16* __restrict__ y, int ranks, int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    uint4 sum = static_cast<const uint4*>(parts.at[0])[i];
    for (int rank = 1; rank < ranks; ++rank) {
        Floats8 both = unpack(sum);
        const Floats8 part = unpack(static_cast<const uint4*>(parts.at[rank])[i]);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            both.values[j] += part.values[j];
        }
        sum = pack(both); // R1
    }
    vectors(y)[i] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
all_reduce_f32(Parts parts, float* __restrict__ y, int ranks, int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) {
        return;
    }
    float sum = static_cast<const float*>(parts.at[0])[i];
    for (int rank = 1; rank < ranks; ++rank) {
        sum += static_cast<const float*>(parts.at[rank])[i];
    }
    y[i] = sum;
}
