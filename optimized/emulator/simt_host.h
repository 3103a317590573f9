// CUDA C++ and the instructions of `kernels/include/simt.cuh`, for the C++ compiler: a kernel becomes a function that
// every thread of the emulated device runs on a stack of its own.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "interface.h"

#define __global__ __attribute__((noinline))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define DEVICE static __forceinline__

using uint16 = uint16_t;
using uint32 = uint32_t;
using uint64 = unsigned long long;
using int64 = long long;

constexpr uint32 FULL_WARP = 0xffffffff;
constexpr int WARP_LANES = 32;

#define threadIdx (emulator::this_thread().index)
#define blockIdx (emulator::this_thread().block_index)
#define blockDim (emulator::this_thread().block_size)
#define gridDim (emulator::this_thread().grid_size)

// CUDA's vectors. They are moved as a whole, as a GPU does: so the checked form sees one access, and its alignment.

template <class Whole, class Vector>
DEVICE void emulated_move(Vector* to, const Vector* from) {
    static_assert(sizeof(Whole) == sizeof(Vector), "all of it");
    *reinterpret_cast<Whole*>(to) = *reinterpret_cast<const Whole*>(from);
}

#define EMULATED_VECTOR2(Vector, Element)                                                                              \
    struct alignas(2 * sizeof(Element)) Vector {                                                                       \
        Element x, y;                                                                                                  \
        Vector() = default;                                                                                            \
        Vector(Element x, Element y) : x(x), y(y) {}                                                                   \
        Vector(const Vector& other) {                                                                                  \
            emulated_move<uint64>(this, &other);                                                                       \
        }                                                                                                              \
        Vector& operator=(const Vector& other) {                                                                       \
            emulated_move<uint64>(this, &other);                                                                       \
            return *this;                                                                                              \
        }                                                                                                              \
    };
#define EMULATED_VECTOR4(Vector, Element)                                                                              \
    struct alignas(4 * sizeof(Element)) Vector {                                                                       \
        Element x, y, z, w;                                                                                            \
        Vector() = default;                                                                                            \
        Vector(Element x, Element y, Element z, Element w) : x(x), y(y), z(z), w(w) {}                                 \
        Vector(const Vector& other) {                                                                                  \
            emulated_move<unsigned __int128>(this, &other);                                                            \
        }                                                                                                              \
        Vector& operator=(const Vector& other) {                                                                       \
            emulated_move<unsigned __int128>(this, &other);                                                            \
            return *this;                                                                                              \
        }                                                                                                              \
    };
EMULATED_VECTOR2(uint2, uint32)
EMULATED_VECTOR4(uint4, uint32)
EMULATED_VECTOR4(int4, int)
EMULATED_VECTOR2(float2, float)
EMULATED_VECTOR4(float4, float)

#define SHARED_MEMORY(Type, name) Type& name = *emulated_shared_memory<Type>(1)
#define SHARED_ARRAY(Type, name, count) Type* const name = emulated_shared_memory<Type>(count)

template <class Type>
DEVICE Type* emulated_shared_memory(uint32 count) {
    emulator_require_shared(count * sizeof(Type));
    return reinterpret_cast<Type*>(emulator::this_thread().shared);
}

// Numbers.

DEVICE float __uint_as_float(uint32 bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE uint32 __float_as_uint(float value) {
    uint32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE int __popc(uint32 bits) {
    return __builtin_popcount(bits);
}

DEVICE int __clz(int bits) {
    return bits == 0 ? 32 : __builtin_clz(static_cast<uint32>(bits));
}

DEVICE int __ffs(int bits) {
    return __builtin_ffs(bits);
}

// A GPU's functions are off by an ulp or two, each its own way. Here they are taken in f64 and rounded once.
DEVICE float rsqrtf(float x) {
    return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
}

DEVICE float emulated_expf(float x) {
    return static_cast<float>(__builtin_exp(static_cast<double>(x)));
}

DEVICE float emulated_exp2f(float x) {
    return static_cast<float>(__builtin_exp2(static_cast<double>(x)));
}

DEVICE float emulated_erfcf(float x) {
    return static_cast<float>(__builtin_erfc(static_cast<double>(x)));
}

// The compiler knows these without <cmath>, which would take it longer to read than most kernels.
#define fmaf __builtin_fmaf
#define fmaxf __builtin_fmaxf

#define expf emulated_expf
#define exp2f emulated_exp2f
#define erfcf emulated_erfcf

template <class T>
DEVICE T min(T a, T b) {
    return b < a ? b : a;
}

template <class T>
DEVICE T max(T a, T b) {
    return a < b ? b : a;
}

struct bf16 {
    uint16 bits;
};

DEVICE float to_float(bf16 x) {
    return __uint_as_float(uint32{x.bits} << 16);
}

DEVICE bf16 to_bf16(float x) {
    const uint32 bits = __float_as_uint(x);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    const uint32 rounded = bits + 0x7fff + (bits >> 16 & 1);
    return {static_cast<uint16>(is_nan ? 0x7fff : rounded >> 16)};
}

DEVICE float low_float(uint32 pair) {
    return __uint_as_float(pair << 16);
}

DEVICE float high_float(uint32 pair) {
    return __uint_as_float(pair & 0xffff0000);
}

DEVICE uint32 pack_bf16(float low, float high) {
    return uint32{to_bf16(high).bits} << 16 | to_bf16(low).bits;
}

// Warps.

template <class T>
DEVICE uint32 emulated_bits(T value) {
    static_assert(sizeof(T) == sizeof(uint32), "shuffles move 32 bits");
    uint32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <class T>
DEVICE T emulated_shuffle(uint32 mask, T value, int source) {
    emulator::ShuffleOperand operand = {emulated_bits(value), source, 0};
    emulator_collective(emulator::Collective::Shuffle, mask, &operand);
    T result;
    __builtin_memcpy(&result, &operand.result, sizeof result);
    return result;
}

DEVICE int emulated_lane() {
    return static_cast<int>(emulator::this_thread().number) % WARP_LANES;
}

template <class T>
DEVICE T __shfl_sync(uint32 mask, T value, int source, int width = WARP_LANES) {
    const int segment = emulated_lane() & ~(width - 1);
    return emulated_shuffle(mask, value, segment + (source & (width - 1)));
}

template <class T>
DEVICE T __shfl_xor_sync(uint32 mask, T value, int lanes, int width = WARP_LANES) {
    const int lane = emulated_lane();
    const int source = lane ^ lanes;
    const bool beyond = source >= (lane & ~(width - 1)) + width;
    return emulated_shuffle(mask, value, beyond ? lane : source);
}

template <class T>
DEVICE T __shfl_up_sync(uint32 mask, T value, uint32 lanes, int width = WARP_LANES) {
    const int lane = emulated_lane();
    const int source = lane - static_cast<int>(lanes);
    const bool beyond = source < (lane & ~(width - 1));
    return emulated_shuffle(mask, value, beyond ? lane : source);
}

template <class T>
DEVICE T __shfl_down_sync(uint32 mask, T value, uint32 lanes, int width = WARP_LANES) {
    const int lane = emulated_lane();
    const int source = lane + static_cast<int>(lanes);
    const bool beyond = source >= (lane & ~(width - 1)) + width;
    return emulated_shuffle(mask, value, beyond ? lane : source);
}

DEVICE uint32 emulated_vote(emulator::Collective operation, uint32 mask, uint32 value) {
    emulator::VoteOperand operand = {value, 0};
    emulator_collective(operation, mask, &operand);
    return operand.result;
}

DEVICE uint32 __ballot_sync(uint32 mask, int predicate) {
    return emulated_vote(emulator::Collective::Ballot, mask, predicate != 0);
}

DEVICE int __any_sync(uint32 mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}

DEVICE int __all_sync(uint32 mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}

template <class T>
DEVICE uint32 __match_any_sync(uint32 mask, T value) {
    return emulated_vote(emulator::Collective::MatchAny, mask, emulated_bits(value));
}

template <class T>
DEVICE T __reduce_add_sync(uint32 mask, T value) {
    return static_cast<T>(emulated_vote(emulator::Collective::Add, mask, static_cast<uint32>(value)));
}

template <class T>
DEVICE T __reduce_min_sync(uint32 mask, T value) {
    constexpr auto operation =
        std::is_signed_v<T> ? emulator::Collective::MinSigned : emulator::Collective::MinUnsigned;
    return static_cast<T>(emulated_vote(operation, mask, static_cast<uint32>(value)));
}

template <class T>
DEVICE T __reduce_max_sync(uint32 mask, T value) {
    constexpr auto operation =
        std::is_signed_v<T> ? emulator::Collective::MaxSigned : emulator::Collective::MaxUnsigned;
    return static_cast<T>(emulated_vote(operation, mask, static_cast<uint32>(value)));
}

DEVICE uint32 __reduce_and_sync(uint32 mask, uint32 value) {
    return emulated_vote(emulator::Collective::And, mask, value);
}

DEVICE uint32 __reduce_or_sync(uint32 mask, uint32 value) {
    return emulated_vote(emulator::Collective::Or, mask, value);
}

DEVICE uint32 __reduce_xor_sync(uint32 mask, uint32 value) {
    return emulated_vote(emulator::Collective::Xor, mask, value);
}

DEVICE void __syncwarp(uint32 mask = FULL_WARP) {
    emulator_collective(emulator::Collective::SyncWarp, mask, nullptr);
}

// Blocks.

DEVICE void __syncthreads() {
    emulator_barrier(0, 0, emulator::Predicate::None, 0);
}

DEVICE int __syncthreads_count(int predicate) {
    return emulator_barrier(0, 0, emulator::Predicate::Count, predicate);
}

DEVICE int __syncthreads_and(int predicate) {
    return emulator_barrier(0, 0, emulator::Predicate::All, predicate);
}

DEVICE int __syncthreads_or(int predicate) {
    return emulator_barrier(0, 0, emulator::Predicate::Any, predicate);
}

DEVICE void barrier_sync(int id, int threads) {
    emulator_barrier(id, threads, emulator::Predicate::None, 0);
}

DEVICE void __threadfence() {
    emulator_fence();
}

template <class T>
DEVICE T emulated_atomic(emulator::Atomic operation, T* address, T value, T expected = 0) {
    static_assert(std::is_integral_v<T>, "an atomic float would depend on the order of threads");
    return static_cast<T>(emulator_atomic(operation, address, sizeof(T), std::is_signed_v<T>,
                                          static_cast<uint64_t>(value), static_cast<uint64_t>(expected)));
}

#define EMULATED_ATOMIC(name, operation)                                                                               \
    template <class T>                                                                                                 \
    DEVICE T name(T* address, std::common_type_t<T> value) {                                                           \
        return emulated_atomic(emulator::Atomic::operation, address, value);                                           \
    }
EMULATED_ATOMIC(atomicAdd, Add)
EMULATED_ATOMIC(atomicMin, Min)
EMULATED_ATOMIC(atomicMax, Max)
EMULATED_ATOMIC(atomicAnd, And)
EMULATED_ATOMIC(atomicOr, Or)
EMULATED_ATOMIC(atomicXor, Xor)
EMULATED_ATOMIC(atomicExch, Exchange)

template <class T>
DEVICE T atomicCAS(T* address, std::common_type_t<T> expected, std::common_type_t<T> value) {
    return emulated_atomic(emulator::Atomic::CompareExchange, address, value, expected);
}

#include "simt_host_instructions.h"

// How the driver calls a kernel: with an array of pointers to its arguments.

template <class... Arguments, size_t... INDICES>
__attribute__((no_sanitize("thread"))) void emulated_call(void (*kernel)(Arguments...), void** arguments,
                                                          std::index_sequence<INDICES...>) {
    kernel(*static_cast<std::remove_const_t<Arguments>*>(arguments[INDICES])...);
}

template <class... Arguments>
__attribute__((no_sanitize("thread"))) void emulated_call(void (*kernel)(Arguments...), void** arguments) {
    emulated_call(kernel, arguments, std::index_sequence_for<Arguments...>{});
}

template <size_t COUNT>
struct EmulatedParameters {
    uint32 count;
    uint32 bytes[COUNT];
};

template <class... Arguments>
constexpr EmulatedParameters<sizeof...(Arguments)> emulated_parameters(void (*)(Arguments...)) {
    return {sizeof...(Arguments), {sizeof(Arguments)...}};
}

// Follows the kernels in a translation unit, once for each.
#define EMULATED_ENTRY(kernel)                                                                                         \
    extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) void kernel##_entry(void** arguments) {   \
        emulated_call(&kernel, arguments);                                                                             \
    }                                                                                                                  \
    extern "C" __attribute__((visibility("default"))) constexpr auto kernel##_parameters = emulated_parameters(&kernel);
