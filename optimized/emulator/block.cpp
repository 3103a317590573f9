#include "block.h"

#include <sys/mman.h>

#include <cstring>

namespace emulator {

namespace {

// What shared memory holds before it is written: NaN in every format.
constexpr int UNWRITTEN = 0xff;

// `threads 0-31, 40`.
std::string ranges(const std::vector<uint32_t>& numbers) {
    std::string text;
    for (size_t i = 0; i < numbers.size();) {
        size_t end = i + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
            end += 1;
        }
        text += text.empty() ? "" : ", ";
        text += format("%u", numbers[i]);
        text += end == i + 1 ? "" : format("-%u", numbers[end - 1]);
        i = end;
    }
    return (numbers.size() == 1 ? "thread " : "threads ") + text;
}

} // namespace

Block::Block() {
    void* const mapping = mmap(nullptr, MAX_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared = mapping == MAP_FAILED ? nullptr : static_cast<unsigned char*>(mapping);
}

Block::~Block() {
    if (shared != nullptr) {
        munmap(shared, MAX_SHARED_BYTES);
    }
}

bool Block::run(Launch& running, uint64_t block_number) {
    if (shared == nullptr || !region.mapped() || !region.reserve(running.shape.threads())) {
        running.report.add(Fault::StackExhausted, "the launch", "the host has no memory for the threads of a block");
        return false;
    }
    prepare(running, block_number);
    const int first = scheduler.pick(warps, warp_count, running.schedule.order == Order::Reverse ? warp_count - 1 : 0);
    go_to(&host_stack_pointer_, static_cast<uint32_t>(first));
    if (running.counts) {
        counter.end();
    }
    return !stopped_;
}

void Block::prepare(Launch& running, uint64_t block_number) {
    launch = &running;
    number = block_number;
    stopped_ = false;
    const LaunchShape& shape = running.shape;
    threads = shape.threads();
    live = threads;
    warp_count = (threads + WARP_LANES - 1) / WARP_LANES;
    const Dim3 index = {static_cast<uint32_t>(block_number % shape.grid.x),
                        static_cast<uint32_t>(block_number / shape.grid.x % shape.grid.y),
                        static_cast<uint32_t>(block_number / shape.grid.x / shape.grid.y)};
    for (uint32_t warp = 0; warp < warp_count; ++warp) {
        const uint32_t lanes = threads - warp * WARP_LANES;
        const uint32_t all = lanes >= WARP_LANES ? ~0u : (1u << lanes) - 1;
        warps[warp].all = all;
        warps[warp].alive = all;
        warps[warp].ready = all;
        warps[warp].arrived = 0;
        products[warp].begin();
        begun[warp / WARPGROUP_WARPS].clear();
    }
    memset(barriers, 0, sizeof barriers);
    for (uint32_t i = 0; i < threads; ++i) {
        Thread& thread = region.thread(i);
        thread.index = {i % shape.block.x, i / shape.block.x % shape.block.y, i / shape.block.x / shape.block.y};
        thread.number = i;
        thread.block_index = index;
        thread.block_size = shape.block;
        thread.grid_size = shape.grid;
        thread.shared = shared;
        thread.shared_bytes = shape.shared_bytes;
        thread.block = this;
        thread.waits_at = nullptr;
        thread.waits_for = nullptr;
        region.prepare(thread, thread_body);
        copies[i].pending.clear();
        copies[i].group = 0;
    }
    memset(shared, UNWRITTEN, shape.shared_bytes);
    scheduler.begin(running.schedule, block_number, warp_count);
    if (running.counts) {
        counter.begin(*this);
    }
    if (running.checked()) {
        shared_checker.begin(*this, clocks.begin(*this));
        global_checker.begin(*this);
    }
}

void Block::thread_body() {
    Thread& thread = this_thread();
    Block& block = *thread.block;
    block.launch->entry(block.launch->arguments);
    block.leave(thread);
}

void Block::go_to(void** from, uint32_t thread) {
    switches += 1;
    emulator_switch(from, region.thread(thread).stack_pointer);
}

void Block::wait(Thread& thread, const char* what, const void* at) {
    const uint32_t warp = thread.number / WARP_LANES;
    warps[warp].ready &= ~(1u << thread.number % WARP_LANES);
    thread.waits_for = what;
    thread.waits_at = at;
    const int next = scheduler.pick(warps, warp_count, warp);
    if (next < 0) {
        report_deadlock(thread);
    }
    go_to(&thread.stack_pointer, static_cast<uint32_t>(next));
}

void Block::maybe_yield(Thread& thread) {
    if (!scheduler.yields()) {
        return;
    }
    const int next = scheduler.pick(warps, warp_count, thread.number / WARP_LANES);
    if (static_cast<uint32_t>(next) != thread.number) {
        go_to(&thread.stack_pointer, static_cast<uint32_t>(next));
    }
}

void Block::leave(Thread& thread) {
    const uint32_t warp_number = thread.number / WARP_LANES;
    const uint32_t lane = thread.number % WARP_LANES;
    Warp& warp = warps[warp_number];
    const AsyncCopies& copied = copies[thread.number];
    if (!copied.pending.empty()) {
        note(Fault::CopyInFlight, copied.pending.front().at,
             name(thread.number) + " leaves the kernel without waiting for this copy");
    }
    if (products[warp_number].in_flight()) {
        const WarpProduct& first = products[warp_number].pending.front();
        note(Fault::ProductInFlight, first.at, name(thread.number) + " leaves the kernel without waiting for this product");
    }
    for (uint32_t waiting = warp.arrived; waiting != 0; waiting &= waiting - 1) {
        const Arrival& arrival = warp.arrivals[__builtin_ctz(waiting)];
        if (arrival.mask >> lane & 1) {
            stop(thread, Fault::AbsentLane, arrival.at,
                 name(thread.number) + " left the kernel while its warp waits for it here");
        }
    }
    warp.alive &= ~(1u << lane);
    warp.ready &= ~(1u << lane);
    live -= 1;
    Barrier& whole = barriers[0];
    if (whole.arrived != 0 && whole.expected == threads && whole.arrived == live) {
        stop(thread, Fault::DivergentBarrier, whole.at,
             format("%u of the block's %u threads left the kernel without coming here", threads - live, threads));
    }
    const int next = scheduler.pick(warps, warp_count, warp_number);
    if (next >= 0) {
        go_to(&thread.stack_pointer, static_cast<uint32_t>(next));
    }
    if (live != 0) {
        report_deadlock(thread);
    }
    emulator_switch(&thread.stack_pointer, host_stack_pointer_);
    __builtin_unreachable();
}

void Block::report_deadlock(Thread& thread) {
    {
        std::string who;
        const void* first = nullptr;
        std::vector<bool> told(threads, false);
        for (uint32_t i = 0; i < threads; ++i) {
            const Thread& waiting = region.thread(i);
            const bool is_alive = warps[i / WARP_LANES].alive >> i % WARP_LANES & 1;
            if (told[i] || !is_alive) {
                continue;
            }
            std::vector<uint32_t> together;
            for (uint32_t j = i; j < threads; ++j) {
                const bool other_alive = warps[j / WARP_LANES].alive >> j % WARP_LANES & 1;
                if (other_alive && same_place(region.thread(j).waits_at, waiting.waits_at)) {
                    together.push_back(j);
                    told[j] = true;
                }
            }
            first = first == nullptr ? waiting.waits_at : first;
            who += who.empty() ? "" : "; ";
            who += ranges(together) + " of " + std::to_string(threads) + " wait for " + waiting.waits_for + " at " +
                   place(waiting.waits_at);
        }
        note(Fault::Deadlock, first, who);
    }
    stop(thread);
}

void Block::note(Fault fault, const void* at, const std::string& details) {
    launch->report.add(fault, place(at), details);
}

void Block::stop(Thread& thread, Fault fault, const void* at, std::string details) {
    {
        // The stack is abandoned, so nothing on it may own memory any more.
        const std::string owned = std::move(details);
        note(fault, at, owned);
    }
    stop(thread);
}

void Block::stop(Thread& thread) {
    stopped_ = true;
    emulator_switch(&thread.stack_pointer, host_stack_pointer_);
    __builtin_unreachable();
}

std::string Block::place(const void* at) const {
    return launch->image.lines().describe(launch->image.place_of(at));
}

bool Block::same_place(const void* a, const void* b) const {
    return a == b || launch->image.place_of(a) == launch->image.place_of(b);
}

std::string Block::name(uint32_t thread) const {
    return format("thread %u of block %llu", thread, static_cast<unsigned long long>(number));
}

bool Block::in_shared(const void* address, uint32_t bytes) const {
    const uint32_t size = launch->shape.shared_bytes;
    const auto offset = static_cast<uintptr_t>(static_cast<const unsigned char*>(address) - shared);
    return offset < size && bytes <= size - offset;
}

uint32_t Block::shared_offset(const void* address) const {
    return static_cast<uint32_t>(static_cast<const unsigned char*>(address) - shared);
}

} // namespace emulator

extern "C" void emulator_require_shared(uint32_t bytes) {
    using namespace emulator;
    Thread& thread = this_thread();
    if (bytes > thread.shared_bytes) {
        thread.block->stop(thread, Fault::SharedTooSmall, __builtin_return_address(0),
                           format("the kernel needs %u bytes, the launch gives %u", bytes, thread.shared_bytes));
    }
}
