// One block of a launch while it runs: its threads, warps and barriers, and going from thread to thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "clocks.h"
#include "counter.h"
#include "fiber.h"
#include "global_checker.h"
#include "launch.h"
#include "schedule.h"
#include "shared_checker.h"
#include "tensor_core.h"
#include "warpgroup.h"

namespace emulator {

constexpr uint32_t MAX_SHARED_BYTES = 227 << 10;
constexpr int BARRIERS = 16;

// A lane that came to a collective.
struct Arrival {
    Collective operation;
    uint32_t mask;
    void* operand;
    const void* at;
};

struct Warp {
    uint32_t all;     // lanes that it began with
    uint32_t alive;   // lanes that have not left the kernel
    uint32_t ready;   // lanes that can run
    uint32_t arrived; // lanes that wait in a collective
    Arrival arrivals[WARP_LANES];
};

struct Barrier {
    uint32_t expected;
    uint32_t arrived;
    uint32_t lanes[MAX_WARPS]; // who arrived, for each warp
    const void* at;            // where the first one did
    uint32_t true_values;
    int result;
};

struct AsyncCopy {
    unsigned char* shared;
    const unsigned char* global;
    int bytes; // the rest of the 16 becomes zero
    uint32_t group;
    const void* at;
};

// A thread's asynchronous copies that it has not waited for, oldest first.
struct AsyncCopies {
    std::vector<AsyncCopy> pending;
    uint32_t group; // that the next copy joins
};

struct Block {
    Block();
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    // Runs block `number` of the launch, from the host's stack. False if it was stopped.
    bool run(Launch& launch, uint64_t number);

    // For the running thread, on its own stack.
    void collective(Thread& thread, const Arrival& arrival);
    int barrier(Thread& thread, int id, uint32_t expected, Predicate predicate, bool value, const void* at);
    void copy_async(Thread& thread, const AsyncCopy& copy);
    void copy_commit(Thread& thread) { copies[thread.number].group += 1; }
    void copy_wait(Thread& thread, uint32_t groups_left);

    // Gives the processor to another thread until this one is ready again.
    void wait(Thread& thread, const char* what, const void* at);
    // Lets others run first, if the schedule says so.
    void maybe_yield(Thread& thread);

    // Notes a finding at the code that returns to `at`.
    void note(Fault fault, const void* at, const std::string& details);
    // Ends the block, and the launch, before worse happens.
    [[noreturn]] void stop(Thread& thread);
    [[noreturn]] void stop(Thread& thread, Fault fault, const void* at, std::string details);

    std::string place(const void* at) const;
    bool same_place(const void* a, const void* b) const;
    // `thread 5 of block 2`.
    std::string name(uint32_t thread) const;
    bool in_shared(const void* address, uint32_t bytes) const;
    uint32_t shared_offset(const void* address) const;

    Launch* launch = nullptr;
    uint64_t number = 0;
    uint32_t threads = 0;
    uint32_t warp_count = 0;
    uint32_t live = 0;
    Region region;
    unsigned char* shared;
    Warp warps[MAX_WARPS];
    Barrier barriers[BARRIERS];
    AsyncCopies copies[MAX_THREADS];
    WarpProducts products[MAX_WARPS];
    // Of each warpgroup, all that its warps have begun.
    std::vector<WarpgroupFactors> begun[MAX_WARPS / WARPGROUP_WARPS];
    Scheduler scheduler;
    TensorCore tensor_core;
    Clocks clocks;
    SharedChecker shared_checker;
    GlobalChecker global_checker;
    Counter counter;
    uint64_t switches = 0;
    uint64_t collectives = 0;

  private:
    static void thread_body();
    void prepare(Launch& launch, uint64_t number);
    void go_to(void** from, uint32_t thread);
    [[noreturn]] void leave(Thread& thread);
    [[noreturn]] void report_deadlock(Thread& thread);
    void check_arrivals(Thread& thread, const Warp& warp, const Arrival& arrival);
    void execute(Thread& thread, Warp& warp, const Arrival& arrival);
    void release(Barrier& barrier);
    void finish_copy(Thread& thread, const AsyncCopy& copy);

    void* host_stack_pointer_ = nullptr;
    bool stopped_ = false;
};

// The parts of `Block::execute` that have files of their own.
void load_matrix(Block& block, Thread& thread, Warp& warp, bool transposed);
void multiply(Warp& warp, TensorCore& core, TensorCores generation);
void warpgroup_begin(Block& block, Thread& thread, Warp& warp);
void warpgroup_multiply(Block& block, Thread& thread, Warp& warp);
void warpgroup_wait(Block& block, Thread& thread, Warp& warp);

} // namespace emulator
