// __syncthreads and the named barriers.

#include "block.h"

namespace emulator {

namespace {

int answer(Predicate predicate, uint32_t true_values, uint32_t threads) {
    switch (predicate) {
    case Predicate::Count: return static_cast<int>(true_values);
    case Predicate::All: return true_values == threads;
    case Predicate::Any: return true_values != 0;
    case Predicate::None: break;
    }
    return 0;
}

} // namespace

int Block::barrier(Thread& thread, int id, uint32_t expected, Predicate predicate, bool value, const void* at) {
    const bool whole_block = expected == 0;
    Barrier& barrier = barriers[id];
    if (whole_block && live != threads) {
        stop(thread, Fault::DivergentBarrier, at,
             format("%u of the block's %u threads left the kernel without coming here", threads - live, threads));
    }
    if (barrier.arrived == 0) {
        barrier.expected = whole_block ? threads : expected;
        barrier.at = at;
        barrier.true_values = 0;
    } else if (!same_place(barrier.at, at)) {
        stop(thread, Fault::DivergentBarrier, at,
             name(thread.number) + " is here while others wait at " + place(barrier.at));
    }
    barrier.arrived += 1;
    barrier.lanes[thread.number / WARP_LANES] |= 1u << thread.number % WARP_LANES;
    barrier.true_values += value ? 1 : 0;
    if (barrier.arrived != barrier.expected) {
        wait(thread, whole_block ? "__syncthreads" : "a named barrier", at);
        return barrier.result;
    }
    for (uint32_t warp = 0; warp < warp_count; ++warp) {
        const uint32_t arrived = barrier.lanes[warp];
        if (arrived != 0 && arrived != warps[warp].alive) {
            stop(thread, Fault::DivergentBarrier, at,
                 format("lanes %08x of warp %u came here, lanes %08x did not", arrived, warp,
                        warps[warp].alive & ~arrived));
        }
    }
    barrier.result = answer(predicate, barrier.true_values, barrier.expected);
    release(barrier);
    maybe_yield(thread);
    return barrier.result;
}

void Block::release(Barrier& barrier) {
    uint32_t participants = 0;
    for (uint32_t warp = 0; warp < warp_count; ++warp) {
        warps[warp].ready |= barrier.lanes[warp];
        participants |= barrier.lanes[warp] != 0 ? 1u << warp : 0;
        barrier.lanes[warp] = 0;
    }
    barrier.arrived = 0;
    if (launch->checked()) {
        clocks.barrier(participants);
    }
}

} // namespace emulator

extern "C" int emulator_barrier(int id, int threads, emulator::Predicate predicate, int value) {
    emulator::Thread& thread = emulator::this_thread();
    const void* const at = __builtin_return_address(0);
    emulator::Block& block = *thread.block;
    if (id < 0 || id >= emulator::BARRIERS || threads % static_cast<int>(emulator::WARP_LANES) != 0) {
        block.stop(thread, emulator::Fault::DivergentBarrier, at,
                   emulator::format("barrier %d for %d threads: barriers are 0 to 15, for whole warps", id, threads));
    }
    return block.barrier(thread, id, static_cast<uint32_t>(threads), predicate, value != 0, at);
}
