// What a GPU can do that CUDA C++ has no name for, and the only inline PTX of the project.
//
// A kernel is compiled twice: by NVRTC for a GPU, with no header but these, and by the C++ compiler for the emulated
// device, where `simt_host.h` gives every name below, and the part of CUDA C++ that kernels use, the same meaning. So a
// kernel uses nothing else: no other header, no inline PTX, no static `__shared__`, and one statement a line, because
// findings name lines.
#pragma once

#ifndef __CUDACC__
#include "simt_host.h"
#else

#define DEVICE static __device__ __forceinline__

using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int64 = long long;

constexpr uint32 FULL_WARP = 0xffffffff;
constexpr int WARP_LANES = 32;

// The block's dynamic shared memory, as a Type.
#define SHARED_MEMORY(Type, name)                                                                                      \
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];                                           \
    Type& name = *reinterpret_cast<Type*>(dynamic_shared_memory)

// The same, as `count` of them, of which only the launch knows how many.
#define SHARED_ARRAY(Type, name, count)                                                                                \
    extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];                                           \
    Type* const name = reinterpret_cast<Type*>(dynamic_shared_memory)

struct bf16 {
    uint16 bits;
};

DEVICE float to_float(bf16 x) {
    return __uint_as_float(uint32(x.bits) << 16);
}

// To the nearest, ties to even.
DEVICE bf16 to_bf16(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

// The values of a register that holds two.
DEVICE float low_float(uint32 pair) {
    return __uint_as_float(pair << 16);
}

DEVICE float high_float(uint32 pair) {
    return __uint_as_float(pair & 0xffff0000);
}

DEVICE uint32 pack_bf16(float low, float high) {
    uint32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

DEVICE uint32 shared_address(const void* shared) {
    return uint32(__cvta_generic_to_shared(shared));
}

// Copies the first `bytes` of 16 bytes asynchronously, and zeros for the rest; with 0 bytes `global` is not read.
// Both addresses are multiples of 16.
DEVICE void cp_async16(void* shared, const void* global, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(shared)), "l"(global), "r"(bytes)
                 : "memory");
}

// Ends a group of this thread's asynchronous copies.
DEVICE void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most GROUPS of this thread's groups are incomplete. Other threads see the bytes after a barrier only.
template <int GROUPS>
DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory");
}

// COUNT times four 8×8 matrices of 16-bit values, their rows `step` bytes further each time. Lane l gives the address
// of row l%8 of matrix l/8, and receives columns 2(l%4) and 2(l%4)+1 of row l/4 of each matrix.
template <int COUNT>
DEVICE void ldmatrix_x4(uint32 (&fragments)[COUNT][4], const void* row, int step) {
    const uint32 first = shared_address(row);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        uint32(&r)[4] = fragments[i];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(first + i * step)
                     : "memory");
    }
}

// The same, but lane l receives rows 2(l%4) and 2(l%4)+1 of column l/4.
template <int COUNT>
DEVICE void ldmatrix_x4_trans(uint32 (&fragments)[COUNT][4], const void* row, int step) {
    const uint32 first = shared_address(row);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        uint32(&r)[4] = fragments[i];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(first + i * step)
                     : "memory");
    }
}

#define MMA_TILE(name, instruction)                                                                                    \
    DEVICE void name(float (&d)[4], const uint32 (&a)[4], uint32 b0, uint32 b1) {                                      \
        asm volatile("mma.sync.aligned." instruction                                                                   \
                     " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
    }
MMA_TILE(mma_bf16_tile, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_TILE(mma_f16_tile, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_TILE(mma_e4m3_tile, "m16n8k32.row.col.f32.e4m3.e4m3.f32")

// d[i][j] += a[i]·b[j] on tensor cores, over 16 k, for ROWS tiles of 16 rows and 2·PAIRS tiles of 8 columns. Lane l
// holds
//   a[i]: rows l/4 (0, 2) and l/4+8 (1, 3), two columns from 2(l%4) (0, 1) and from 2(l%4)+8 (2, 3),
//   b[j]: two rows from 2(l%4) (0, 2) and from 2(l%4)+8 (1, 3), column l/4 of the pair's first tile (0, 1) and second
//   (2, 3),
//   d[i][j]: row l/4 (0, 1) and l/4+8 (2, 3), columns 2(l%4) (0, 2) and 2(l%4)+1 (1, 3).
#define MMA(name)                                                                                                      \
    template <int ROWS, int PAIRS>                                                                                     \
    DEVICE void name(float (&d)[ROWS][2 * PAIRS][4], const uint32 (&a)[ROWS][4], const uint32 (&b)[PAIRS][4]) {        \
        _Pragma("unroll") for (int i = 0; i < ROWS; ++i) {                                                             \
            _Pragma("unroll") for (int j = 0; j < 2 * PAIRS; ++j) {                                                    \
                name##_tile(d[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);                              \
            }                                                                                                          \
        }                                                                                                              \
    }
MMA(mma_bf16)
// The same of f16.
MMA(mma_f16)
// The same of E4M3, over 32 k: where above are two values, are four, two of which take the place of one. From sm_89 on.
MMA(mma_e4m3)

// Products of warpgroups, on Hopper. A warpgroup is four warps, of which the first one's number is a multiple of four, and its
// tensor cores read both factors from shared memory, while its warps go on.
//
// Its sums: warp w of the four has rows 16w to 16w+15, as mma_bf16 leaves them in d[0].

// What ordinary stores of the calling thread and its copies that have arrived wrote to shared memory, warpgroup_multiply of
// threads may read that wait for this one after it.
DEVICE void fence_for_warpgroups() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define SUMS(j) "+f"(d[0][j][0]), "+f"(d[0][j][1]), "+f"(d[0][j][2]), "+f"(d[0][j][3])
#define ALL_SUMS                                                                                                       \
    SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7), SUMS(8), SUMS(9), SUMS(10), SUMS(11),      \
        SUMS(12), SUMS(13), SUMS(14), SUMS(15)

// Hands sums over to warpgroup_multiply: until warpgroup_finish gives them back, nothing else may touch them.
DEVICE void warpgroup_begin(float (&d)[1][16][4]) {
    asm volatile("wgmma.fence.sync.aligned;" : ALL_SUMS : : "memory");
}

// Where a factor's first row begins, of rows of 128 bytes whose 16-byte vectors are permuted by the row's number modulo 8, in
// shared memory: its first vector is one of even number of a row whose number is a multiple of 8, at a multiple of 1024.
DEVICE uint64 warpgroup_factor(const void* first) {
    constexpr uint64 EIGHT_ROWS = 1024 >> 4;
    constexpr uint64 PERMUTED_BY_EIGHT = 1;
    return PERMUTED_BY_EIGHT << 62 | EIGHT_ROWS << 32 | uint64(1) << 16 | (shared_address(first) >> 4 & 0x3fff);
}

// Begins d += a·bᵀ of a warpgroup over 16 k, for 64 rows of a and 128 of b, which lie as warpgroup_factor says.
DEVICE void warpgroup_multiply(float (&d)[1][16][4], const void* a, const void* b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
        " {%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, 1, 1, 1, 0, 0;"
        : ALL_SUMS
        : "l"(warpgroup_factor(a)), "l"(warpgroup_factor(b)));
}

// Ends a group of the warpgroup's products.
DEVICE void warpgroup_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most GROUPS of the warp's groups are incomplete: what the others multiply may be overwritten.
template <int GROUPS>
DEVICE void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(GROUPS) : "memory");
}

// Waits for all of the warp's groups, whose sums are there then.
DEVICE void warpgroup_finish(float (&d)[1][16][4]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ALL_SUMS : : "memory");
}

// Waits for `threads` threads, all of whole warps, at barrier `id`; __syncthreads is barrier 0.
DEVICE void barrier_sync(int id, int threads) {
    asm volatile("barrier.sync.aligned %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

#endif

// An E4M3: bit 7 the sign, bits 6 to 3 the exponent with bias 7, the others of significand.
DEVICE float e4m3_to_float(uint32 byte) {
    constexpr uint32 TWO_TO_120 = 0x7b800000; // the bias of an f32 less that of an E4M3
    const uint32 magnitude = byte & 0x7f;
    const float value = __uint_as_float((byte & 0x80) << 24 | magnitude << 20) * __uint_as_float(TWO_TO_120);
    return magnitude == 0x7f ? __uint_as_float(0x7fffffff) : value;
}

// The two of them that the lower half of a register holds; from sm_89 on by the instructions that GPUs have for it.
DEVICE float2 e4m3_pair_to_floats(uint32 pair) {
    float2 values;
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 890
    asm("{\n\t.reg .b32 halves;\n\t.reg .b16 low, high;\n\t"
        "cvt.rn.f16x2.e4m3x2 halves, %2;\n\tmov.b32 {low, high}, halves;\n\t"
        "cvt.f32.f16 %0, low;\n\tcvt.f32.f16 %1, high;\n\t}"
        : "=f"(values.x), "=f"(values.y)
        : "h"(uint16(pair)));
#else
    values.x = e4m3_to_float(pair & 0xff);
    values.y = e4m3_to_float(pair >> 8 & 0xff);
#endif
    return values;
}
