// Each thing that kernels may use, once, with results that show what it did. Launched with whole warps.

#include "one_product.cuh"

// Where a thread is: out[thread][8].
extern "C" __global__ void indices(int* out) {
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    int* const own = out + (block * blockDim.x + threadIdx.x) * 8;
    own[0] = threadIdx.x;
    own[1] = blockIdx.x;
    own[2] = blockIdx.y;
    own[3] = blockDim.x;
    own[4] = gridDim.x;
    own[5] = gridDim.y;
    own[6] = threadIdx.y + threadIdx.z + blockIdx.z;
    own[7] = blockDim.y * blockDim.z * gridDim.z;
}

// out[lane][8]
extern "C" __global__ void shuffles(int* out) {
    const int lane = threadIdx.x;
    int* const own = out + lane * 8;
    own[0] = __shfl_sync(FULL_WARP, lane, lane * 3);
    own[1] = __shfl_sync(FULL_WARP, lane, 5, 8);
    own[2] = __shfl_xor_sync(FULL_WARP, lane, 5);
    own[3] = __shfl_xor_sync(FULL_WARP, lane, 9, 8);
    own[4] = __shfl_up_sync(FULL_WARP, lane, 3);
    own[5] = __shfl_up_sync(FULL_WARP, lane, 3, 16);
    own[6] = __shfl_down_sync(FULL_WARP, lane, 3);
    own[7] = __float_as_uint(__shfl_xor_sync(FULL_WARP, float(lane), 1)) >> 16;
}

// out[lane][16]
extern "C" __global__ void votes(int* out) {
    const int lane = threadIdx.x;
    const int value = (lane * 37) % 64 - 32;
    const uint32 bits = value;
    const uint32 half = lane < 16 ? 0x0000ffff : 0xffff0000;
    int* const own = out + lane * 16;
    own[0] = __ballot_sync(FULL_WARP, lane % 3 == 0);
    own[1] = __ballot_sync(half, lane % 3 == 0);
    own[2] = __any_sync(FULL_WARP, lane == 31);
    own[3] = __all_sync(FULL_WARP, lane != 31);
    own[4] = __match_any_sync(FULL_WARP, uint32(lane % 5));
    own[5] = __reduce_add_sync(FULL_WARP, value);
    own[6] = __reduce_min_sync(FULL_WARP, value);
    own[7] = __reduce_max_sync(FULL_WARP, value);
    own[8] = __reduce_min_sync(FULL_WARP, bits);
    own[9] = __reduce_max_sync(FULL_WARP, bits);
    own[10] = __reduce_and_sync(FULL_WARP, bits | 1);
    own[11] = __reduce_or_sync(FULL_WARP, bits & 6);
    own[12] = __reduce_xor_sync(FULL_WARP, bits);
    own[13] = __reduce_add_sync(half, value);
    own[14] = __popc(bits) * 10000 + __clz(value) * 100 + __ffs(value);
    own[15] = min(value, 3) + max(value, -5) * 100;
}

// out[thread][4], for a block of several warps
extern "C" __global__ void block_votes(int* out) {
    const int thread = threadIdx.x;
    int* const own = out + thread * 4;
    own[0] = __syncthreads_count(thread % 3 == 0);
    own[1] = __syncthreads_and(thread >= 0);
    own[2] = __syncthreads_and(thread != 40);
    own[3] = __syncthreads_or(thread == 40);
}

// Four warps, of which two at a time meet at barriers of their own; then all. out[thread][2]: what thread % 32 of the
// pair's other warp wrote before the first, what one of the other pair wrote before the second.
extern "C" __global__ void barriers(int* out) {
    SHARED_ARRAY(int, written, 128);
    const int thread = threadIdx.x;
    const int pair = thread / 64;
    written[thread] = 3 * thread + 1;
    barrier_sync(1 + pair, 64);
    const int other = pair * 64 + (thread + 32) % 64;
    out[2 * thread] = written[other];
    barrier_sync(0, 128);
    out[2 * thread + 1] = written[127 - thread];
}

struct Matrices {
    bf16 values[64][8];
};

// Eight matrices of 8 × 8 whose element (row, column) of matrix m is 64m + 8·row + column. out[lane][16]: the registers
// of two loads, plain and transposed.
extern "C" __global__ void matrices(int* out) {
    SHARED_MEMORY(Matrices, shared);
    const int lane = threadIdx.x;
    for (int i = lane; i < 512; i += 32) {
        shared.values[i / 8][i % 8].bits = i;
    }
    __syncwarp();
    uint32 plain[2][4];
    uint32 transposed[2][4];
    const int step = 32 * 8 * sizeof(bf16);
    ldmatrix_x4(plain, shared.values[lane], step);
    ldmatrix_x4_trans(transposed, shared.values[lane], step);
    for (int i = 0; i < 8; ++i) {
        out[lane * 16 + i] = plain[i / 4][i % 4];
        out[lane * 16 + 8 + i] = transposed[i / 4][i % 4];
    }
}

struct Copies {
    unsigned char bytes[32][16];
};

// Lane l copies the first l bytes, of at most 16, of in[l][16]; zeros follow. Two groups. out[lane][16]
extern "C" __global__ void copies(const unsigned char* in, unsigned char* out) {
    SHARED_MEMORY(Copies, shared);
    const int lane = threadIdx.x;
    if (lane < 16) {
        cp_async16(shared.bytes[lane], in + 16 * lane, min(lane, 16));
    }
    cp_async_commit();
    if (lane >= 16) {
        cp_async16(shared.bytes[lane], in + 16 * lane, 16);
    }
    cp_async_commit();
    cp_async_wait<1>();
    cp_async_wait<0>();
    __syncwarp();
    const int other = 31 - lane;
    for (int i = 0; i < 16; ++i) {
        out[16 * other + i] = shared.bytes[other][i];
    }
}

// counters[8] begin as 0, 100, -100, 0, 0xff, 7, 5, 5; wide[2] as 0.
extern "C" __global__ void atomics(int* counters, uint64* wide) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&counters[0], thread);
    atomicMin(&counters[1], thread - 20);
    atomicMax(&counters[2], thread - 20);
    atomicOr(reinterpret_cast<uint32*>(&counters[3]), 1u << thread % 32);
    atomicAnd(&counters[4], ~(thread % 4));
    atomicXor(&counters[5], thread);
    atomicExch(&counters[6], 9);
    atomicCAS(&counters[7], 5, 11);
    atomicAdd(&wide[0], uint64(thread) << 32);
    atomicMax(&wide[1], uint64(thread) << 40);
}

// For n floats: to bf16, packed in pairs with the next, and back.
extern "C" __global__ void rounding(const float* in, uint32* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const bf16 rounded = to_bf16(in[i]);
        const uint32 pair = pack_bf16(in[i], in[(i + 1) % n]);
        const float next = in[(i + 1) % n];
        const bool same = low_float(pair) == to_float(rounded) && high_float(pair) == to_float(to_bf16(next));
        const bool is_nan = in[i] != in[i] || next != next;
        out[i] = uint32(rounded.bits) << 16 | (same || is_nan);
    }
}

// Every E4M3 as a float, as the lower and as the upper one of a pair: out[256][2].
extern "C" __global__ void e4m3_pairs(uint32* out) {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
        const float2 values = e4m3_pair_to_floats(i | (255 - i) << 8);
        out[2 * i] = __float_as_uint(values.x);
        out[2 * i + 1] = __float_as_uint(values.y);
    }
}

// One step of the tensor core in each block, by one warp: c += a·bᵀ for a and b [blocks][16, 32 bytes] and c [blocks][16][16] in
// f32.
template <class Mma>
DEVICE void multiply_in_block(const uint16* a, const uint16* b, float* c, Mma mma) {
    SHARED_MEMORY(Factors, shared);
    const int first = 256 * blockIdx.x;
    multiply_once(shared, a + first, b + first, c + first, mma);
}

extern "C" __global__ void multiply(const uint16* a, const uint16* b, float* c) {
    multiply_in_block(a, b, c, [](float (&d)[1][2][4], const uint32 (&rows)[1][4], const uint32 (&columns)[1][4]) {
        mma_bf16(d, rows, columns);
    });
}

extern "C" __global__ void multiply_f16(const uint16* a, const uint16* b, float* c) {
    multiply_in_block(a, b, c, [](float (&d)[1][2][4], const uint32 (&rows)[1][4], const uint32 (&columns)[1][4]) {
        mma_f16(d, rows, columns);
    });
}

// From compute capability 8.9 on; before, c stays as it is.
extern "C" __global__ void multiply_e4m3(const uint16* a, const uint16* b, float* c) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
    multiply_in_block(a, b, c, [](float (&d)[1][2][4], const uint32 (&rows)[1][4], const uint32 (&columns)[1][4]) {
        mma_e4m3(d, rows, columns);
    });
#endif
}

struct WarpgroupPanels {
    bf16 a[64][64];
    bf16 b[128][64];
};

// Where value k of a row is, as warpgroup_factor has it.
DEVICE bf16& permuted(bf16 (&rows)[64], int row, int k) {
    return rows[(k / 8 ^ row % 8) * 8 + k % 8];
}

// One step of a warpgroup in each block: c += a·bᵀ for a [blocks][64][16], b [blocks][128][16] and c [blocks][64][128], at another
// place of the panels' rows each time, whose other values are no numbers. On Hopper; elsewhere c stays as it is.
extern "C" __global__ void multiply_by_warpgroup(const bf16* a, const bf16* b, float* c) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    SHARED_MEMORY(WarpgroupPanels, shared);
    const int thread = threadIdx.x;
    const int step = blockIdx.x % 4;
    for (int i = thread; i < 128 * 64; i += 128) {
        const int row = i / 64;
        const int k = i % 64;
        const bool is_there = k / 16 == step;
        if (row < 64) {
            permuted(shared.a[row], row, k) = is_there ? a[(64 * blockIdx.x + row) * 16 + k % 16] : bf16{0x7fc0};
        }
        permuted(shared.b[row], row, k) = is_there ? b[(128 * blockIdx.x + row) * 16 + k % 16] : bf16{0x7fc0};
    }
    float d[1][16][4];
    float* const own = c + (64 * blockIdx.x + thread / 32 * 16 + thread % 32 / 4) * 128 + thread % 4 * 2;
    for (int i = 0; i < 64; ++i) {
        d[0][i / 4][i % 4] = own[i % 4 / 2 * 8 * 128 + i / 4 * 8 + i % 2];
    }
    fence_for_warpgroups();
    __syncthreads();
    warpgroup_begin(d);
    warpgroup_multiply(d, &shared.a[0][16 * step], &shared.b[0][16 * step]);
    warpgroup_commit();
    warpgroup_finish(d);
    for (int i = 0; i < 64; ++i) {
        own[i % 4 / 2 * 8 * 128 + i / 4 * 8 + i % 2] = d[0][i / 4][i % 4];
    }
#endif
}
