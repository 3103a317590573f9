// Small kernels, each with one fault that no kernel of the project could have by a change of one line.
// And some that look suspicious and are right.

#include "simt.cuh"

struct Words {
    uint32 values[64];
};

// Launched with 64 threads, and out[64] where there is an out.

extern "C" __global__ void deadlock(uint32* out) {
    if (threadIdx.x < 32) {
        barrier_sync(1, 64);
    } else {
        barrier_sync(2, 64);
    }
    out[threadIdx.x] = 0;
}

extern "C" __global__ void divergent_collective(uint32* out) {
    uint32 value = threadIdx.x;
    if (threadIdx.x % 32 < 16) {
        value = __ballot_sync(FULL_WARP, 1);
    } else {
        value = __reduce_add_sync(FULL_WARP, value);
    }
    out[threadIdx.x] = value;
}

extern "C" __global__ void masks_that_differ(uint32* out) {
    const uint32 mask = threadIdx.x % 32 < 16 ? FULL_WARP : 0xffff0000;
    out[threadIdx.x] = __ballot_sync(mask, 1);
}

extern "C" __global__ void early_exit(uint32* out) {
    if (threadIdx.x == 40) {
        return;
    }
    __syncthreads();
    out[threadIdx.x] = 0;
}

extern "C" __global__ void copy_that_nobody_awaits(const uint32* in) {
    SHARED_MEMORY(Words, shared);
    if (threadIdx.x < 16) {
        cp_async16(&shared.values[4 * threadIdx.x], &in[4 * threadIdx.x], 16);
        cp_async_commit();
    }
}

extern "C" __global__ void uncommitted_copy(const uint32* in, uint32* out) {
    SHARED_MEMORY(Words, shared);
    if (threadIdx.x < 16) {
        cp_async16(&shared.values[4 * threadIdx.x], &in[4 * threadIdx.x], 16);
        cp_async_wait<0>();
    }
    __syncthreads();
    out[threadIdx.x] = shared.values[threadIdx.x];
}

extern "C" __global__ void two_writers(uint32* out) {
    SHARED_MEMORY(Words, shared);
    shared.values[threadIdx.x / 2] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = shared.values[threadIdx.x / 2];
}

extern "C" __global__ void shuffle_as_a_barrier(uint32* out) {
    SHARED_MEMORY(Words, shared);
    shared.values[threadIdx.x] = threadIdx.x;
    const uint32 neighbour = __shfl_xor_sync(FULL_WARP, threadIdx.x, 1);
    out[threadIdx.x] = shared.values[neighbour];
}

extern "C" __global__ void syncwarp_of_half_a_warp(uint32* out) {
    SHARED_MEMORY(Words, shared);
    const uint32 lane = threadIdx.x % 32;
    shared.values[threadIdx.x] = lane;
    __syncwarp(lane < 16 ? 0x0000ffff : 0xffff0000);
    out[threadIdx.x] = shared.values[threadIdx.x & ~16];
}

extern "C" __global__ void shared_memory_overrun(uint32* out) {
    SHARED_MEMORY(Words, shared);
    shared.values[threadIdx.x + 1] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = shared.values[threadIdx.x];
}

extern "C" __global__ void misaligned_atomic(uint32* out) {
    atomicAdd(reinterpret_cast<uint32*>(reinterpret_cast<unsigned char*>(out) + 2), 1u);
}

extern "C" __global__ void global_memory_without_a_barrier(uint32* out) {
    out[threadIdx.x] = threadIdx.x;
    const uint32 value = out[threadIdx.x & ~1];
    __syncthreads();
    out[threadIdx.x] = value;
}

struct Pointers {
    uint32* values[64];
};

extern "C" __global__ void variable_of_another_thread(uint32* out) {
    SHARED_MEMORY(Pointers, shared);
    uint32 own = threadIdx.x;
    shared.values[threadIdx.x] = &own;
    __syncthreads();
    out[threadIdx.x] = *shared.values[threadIdx.x ^ 1];
    __syncthreads();
}

// The last of several blocks to come adds up what the others wrote: partial[gridDim.x], counter = 0 and out[1].

extern "C" __global__ void last_block_without_fences(uint32* partial, uint32* counter, uint32* out) {
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x;
        if (atomicAdd(counter, 1u) == gridDim.x - 1) {
            uint32 sum = 0;
            for (uint32 i = 0; i < gridDim.x; ++i) {
                sum += partial[i];
            }
            out[0] = sum;
        }
    }
}

// And these are right.

extern "C" __global__ void last_block(uint32* partial, uint32* counter, uint32* out) {
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x;
        __threadfence();
        if (atomicAdd(counter, 1u) == gridDim.x - 1) {
            __threadfence();
            uint32 sum = 0;
            for (uint32 i = 0; i < gridDim.x; ++i) {
                sum += partial[i];
            }
            out[0] = sum;
        }
    }
}

extern "C" __global__ void syncwarp_within_half_a_warp(uint32* out) {
    SHARED_MEMORY(Words, shared);
    const uint32 lane = threadIdx.x % 32;
    shared.values[threadIdx.x] = lane;
    __syncwarp(lane < 16 ? 0x0000ffff : 0xffff0000);
    out[threadIdx.x] = shared.values[threadIdx.x ^ 1];
}

extern "C" __global__ void global_memory_with_barriers(uint32* out) {
    out[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const uint32 value = out[threadIdx.x ^ 33];
    __syncthreads();
    out[threadIdx.x] = value;
}

// The second warp works on what the first one left, while the first one goes on.
extern "C" __global__ void named_barriers(uint32* out) {
    SHARED_MEMORY(Words, shared);
    const uint32 lane = threadIdx.x % 32;
    for (uint32 round = 0; round < 4; ++round) {
        if (threadIdx.x < 32) {
            shared.values[lane] = round + lane;
        }
        barrier_sync(1, 64);
        if (threadIdx.x >= 32) {
            out[threadIdx.x] = shared.values[31 - lane];
        }
        barrier_sync(2, 64);
    }
    if (threadIdx.x < 32) {
        out[lane] = 0;
    }
}

// A warp that left as a whole takes no part in a named barrier of the others.
extern "C" __global__ void whole_warp_leaves(uint32* out) {
    out[threadIdx.x] = 0;
    if (threadIdx.x >= 32) {
        return;
    }
    barrier_sync(1, 32);
    out[threadIdx.x] = 1;
}
