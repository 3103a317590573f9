// Sums over the threads of a warp and of a block. Their order depends on the number of threads only.
#pragma once

#include "simt.cuh"

// The sum over the warp, in every lane.
DEVICE float warp_sum(float value) {
#pragma unroll
    for (int lanes = WARP_LANES / 2; lanes != 0; lanes /= 2) {
        value += __shfl_xor_sync(FULL_WARP, value, lanes);
    }
    return value;
}

// The sum over the block, in every thread: each warp's first, then over the warps in their order. `partial` is shared
// memory, a value for each warp, that no thread touches from the barrier before until the barrier after.
template <int WARPS>
DEVICE float block_sum(float value, float (&partial)[WARPS]) {
    static_assert(WARPS <= 1024 / WARP_LANES, "warps of one block");
    const float of_warp = warp_sum(value);
    if (threadIdx.x % WARP_LANES == 0) {
        partial[threadIdx.x / WARP_LANES] = of_warp;
    }
    __syncthreads();
    float sum = 0.f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) {
        sum += partial[warp];
    }
    return sum;
}
