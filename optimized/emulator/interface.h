// What a kernel image and the runtime know of each other.
//
// A kernel image is a `.cu` file compiled by the C++ compiler against `simt_host.h`; it calls the functions declared
// here, which the runtime exports. Everything that is not declared here is the runtime's own business.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

struct Block;

struct Dim3 {
    uint32_t x, y, z;
};

constexpr uint32_t WARP_LANES = 32;
constexpr uint32_t MAX_THREADS = 1024;
constexpr uint32_t MAX_WARPS = MAX_THREADS / WARP_LANES;

// One emulated CUDA thread.
struct alignas(128) Thread {
    Dim3 index;
    uint32_t number; // in its block, x fastest
    Dim3 block_index;
    uint32_t shared_bytes;
    Dim3 block_size;
    Dim3 grid_size;
    unsigned char* shared;
    Block* block;
    void* stack_pointer;  // where it goes on, while it does not run
    const void* waits_at; // the code that it waits in, if it waits
    const char* waits_for;
};

// The stacks of a block's threads lie in one region, aligned to its own size, behind the threads' records. So the
// record of the running thread follows from the stack pointer, with no thread-local variable, and the records lie
// densely in the cache.
constexpr uintptr_t STACK_BYTES = 64 << 10;
constexpr uintptr_t REGION_BYTES = 128 << 20;
constexpr uintptr_t RECORD_BYTES = MAX_THREADS * sizeof(Thread);
constexpr uintptr_t RECORD_SLOTS = RECORD_BYTES / STACK_BYTES;
static_assert(RECORD_BYTES % STACK_BYTES == 0, "stacks begin at a multiple of their size");
static_assert(RECORD_BYTES + MAX_THREADS * STACK_BYTES <= REGION_BYTES, "a region holds a full block");

inline Thread& this_thread() {
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    const uintptr_t region = here & ~(REGION_BYTES - 1);
    const uintptr_t slot = (here - region) / STACK_BYTES - RECORD_SLOTS;
    return reinterpret_cast<Thread*>(region)[slot];
}

// What the lanes of a warp do together.
enum class Collective : int {
    SyncWarp,
    Shuffle,
    Ballot,
    MatchAny,
    Add,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    LoadMatrix,
    LoadMatrixTransposed,
    Multiply,
    WarpgroupBegin,
    WarpgroupMultiply,
    WarpgroupCommit,
    WarpgroupWait,
};

struct ShuffleOperand {
    uint32_t value;
    int source; // the lane whose value this lane wants
    uint32_t result;
};

// For ballots, matches and reductions.
struct VoteOperand {
    uint32_t value;
    uint32_t result;
};

// `count` times ldmatrix.x4, from rows that lie `step` bytes apart.
struct LoadMatrixOperand {
    const void* row;
    uint32_t* fragments; // [count][4]
    int count;
    int step;
};

constexpr int MAX_MULTIPLY_TILES = 16;

// What a tensor core multiplies.
enum class Factors : int { Bf16, F16, E4m3 };

// rows·cols times mma.m16n8k16, of E4M3 mma.m16n8k32: d[i][j] += a[i]·b[j].
struct MultiplyOperand {
    float* d;          // [rows][cols][4]
    const uint32_t* a; // [rows][4]
    const uint32_t* b; // [cols][2]
    int rows;
    int cols;
    Factors factors;
};

// Of a warpgroup's instructions: the lane's sums, where there are some; the factors; the groups that may be incomplete.
struct WarpgroupOperand {
    float* d; // [cols][4]
    int cols; // tiles of 8
    const void* a;
    const void* b;
    int groups_left;
};

enum class Atomic : int { Add, Min, Max, And, Or, Xor, Exchange, CompareExchange };

// What __syncthreads and its variants return.
enum class Predicate : int { None, Count, All, Any };

} // namespace emulator

extern "C" {
void emulator_collective(emulator::Collective operation, uint32_t mask, void* operand);
// Waits for `threads` threads at barrier `id`; 0 threads are the whole block.
int emulator_barrier(int id, int threads, emulator::Predicate predicate, int value);
void emulator_copy_async(void* shared, const void* global, int bytes);
void emulator_copy_commit();
void emulator_copy_wait(int groups_left);
void emulator_fence_for_warpgroups();
// `bytes` is 4 or 8; `is_signed` matters to Min and Max.
uint64_t emulator_atomic(emulator::Atomic operation, void* address, int bytes, bool is_signed, uint64_t value,
                         uint64_t expected);
void emulator_fence();
// Ends the launch with a finding if the block has less dynamic shared memory.
void emulator_require_shared(uint32_t bytes);
}
