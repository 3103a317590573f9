// What the lanes of a warp do together. The last lane to arrive does it for all.

#include "block.h"

namespace emulator {

namespace {

void shuffle(const Warp& warp, uint32_t mask) {
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        auto& operand = *static_cast<ShuffleOperand*>(warp.arrivals[__builtin_ctz(lanes)].operand);
        operand.result = static_cast<const ShuffleOperand*>(warp.arrivals[operand.source].operand)->value;
    }
}

uint32_t vote_of(const Warp& warp, int lane) {
    return static_cast<const VoteOperand*>(warp.arrivals[lane].operand)->value;
}

void answer(Warp& warp, int lane, uint32_t result) {
    static_cast<VoteOperand*>(warp.arrivals[lane].operand)->result = result;
}

void ballot(Warp& warp, uint32_t mask) {
    uint32_t result = 0;
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        result |= vote_of(warp, lane) != 0 ? 1u << lane : 0;
    }
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        answer(warp, __builtin_ctz(lanes), result);
    }
}

void match_any(Warp& warp, uint32_t mask) {
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        uint32_t equal = 0;
        for (uint32_t others = mask; others != 0; others &= others - 1) {
            const int other = __builtin_ctz(others);
            equal |= vote_of(warp, other) == vote_of(warp, lane) ? 1u << other : 0;
        }
        answer(warp, lane, equal);
    }
}

uint32_t combine(Collective operation, uint32_t a, uint32_t b) {
    const auto signed_a = static_cast<int32_t>(a);
    const auto signed_b = static_cast<int32_t>(b);
    switch (operation) {
    case Collective::Add: return a + b;
    case Collective::MinSigned: return signed_a < signed_b ? a : b;
    case Collective::MinUnsigned: return a < b ? a : b;
    case Collective::MaxSigned: return signed_a < signed_b ? b : a;
    case Collective::MaxUnsigned: return a < b ? b : a;
    case Collective::And: return a & b;
    case Collective::Or: return a | b;
    default: return a ^ b;
    }
}

void reduce(Warp& warp, uint32_t mask, Collective operation) {
    uint32_t result = vote_of(warp, __builtin_ctz(mask));
    for (uint32_t lanes = mask & (mask - 1); lanes != 0; lanes &= lanes - 1) {
        result = combine(operation, result, vote_of(warp, __builtin_ctz(lanes)));
    }
    for (uint32_t lanes = mask; lanes != 0; lanes &= lanes - 1) {
        answer(warp, __builtin_ctz(lanes), result);
    }
}

} // namespace

void Block::collective(Thread& thread, const Arrival& arrival) {
    const uint32_t lane = thread.number % WARP_LANES;
    Warp& warp = warps[thread.number / WARP_LANES];
    if ((arrival.mask >> lane & 1) == 0) {
        stop(thread, Fault::WrongMask, arrival.at,
             name(thread.number) + format(" is lane %u, which its mask %08x does not name", lane, arrival.mask));
    }
    if ((arrival.mask & ~warp.alive) != 0) {
        stop(thread, Fault::AbsentLane, arrival.at,
             name(thread.number) +
                 format(" names lanes %08x, of which %08x are not there", arrival.mask, arrival.mask & ~warp.alive));
    }
    warp.arrivals[lane] = arrival;
    warp.arrived |= 1u << lane;
    if ((warp.arrived & arrival.mask) != arrival.mask) {
        wait(thread, "its warp", arrival.at);
        return;
    }
    check_arrivals(thread, warp, arrival);
    collectives += 1;
    execute(thread, warp, arrival);
    warp.arrived &= ~arrival.mask;
    warp.ready |= arrival.mask;
    maybe_yield(thread);
}

void Block::check_arrivals(Thread& thread, const Warp& warp, const Arrival& arrival) {
    for (uint32_t lanes = arrival.mask; lanes != 0; lanes &= lanes - 1) {
        const int other = __builtin_ctz(lanes);
        const Arrival& others = warp.arrivals[other];
        if (others.mask != arrival.mask) {
            stop(thread, Fault::WrongMask, arrival.at,
                 name(thread.number) +
                     format(" has mask %08x, but lane %d has mask %08x", arrival.mask, other, others.mask));
        }
        if (others.operation != arrival.operation || !same_place(others.at, arrival.at)) {
            stop(thread, Fault::DivergentCollective, arrival.at,
                 name(thread.number) + format(" is here while lane %d is at ", other) + place(others.at));
        }
    }
}

void Block::execute(Thread& thread, Warp& warp, const Arrival& arrival) {
    switch (arrival.operation) {
    case Collective::SyncWarp:
        if (launch->checked()) {
            clocks.sync_warp(thread.number / WARP_LANES, arrival.mask);
        }
        return;
    case Collective::Shuffle:
        for (uint32_t lanes = arrival.mask; lanes != 0; lanes &= lanes - 1) {
            const int lane = __builtin_ctz(lanes);
            const int source = static_cast<const ShuffleOperand*>(warp.arrivals[lane].operand)->source;
            if ((arrival.mask >> source & 1) == 0) {
                stop(
                    thread, Fault::AbsentLane, arrival.at,
                    format("lane %d shuffles from lane %d, which mask %08x does not name", lane, source, arrival.mask));
            }
        }
        shuffle(warp, arrival.mask);
        return;
    case Collective::Ballot: ballot(warp, arrival.mask); return;
    case Collective::MatchAny: match_any(warp, arrival.mask); return;
    case Collective::LoadMatrix: load_matrix(*this, thread, warp, false); return;
    case Collective::LoadMatrixTransposed: load_matrix(*this, thread, warp, true); return;
    case Collective::Multiply:
        if (launch->counts) {
            const auto& tiles = *static_cast<const MultiplyOperand*>(warp.arrivals[0].operand);
            counter.multiplied(uint64_t{16} * 8 * k_of(tiles.factors) * static_cast<uint64_t>(tiles.rows * tiles.cols));
        }
        multiply(warp, tensor_core, launch->tensor_cores);
        return;
    case Collective::WarpgroupBegin: warpgroup_begin(*this, thread, warp); return;
    case Collective::WarpgroupMultiply: warpgroup_multiply(*this, thread, warp); return;
    case Collective::WarpgroupCommit: products[thread.number / WARP_LANES].group += 1; return;
    case Collective::WarpgroupWait: warpgroup_wait(*this, thread, warp); return;
    default: reduce(warp, arrival.mask, arrival.operation); return;
    }
}

} // namespace emulator

extern "C" void emulator_collective(emulator::Collective operation, uint32_t mask, void* operand) {
    emulator::Thread& thread = emulator::this_thread();
    thread.block->collective(thread, {operation, mask, operand, __builtin_return_address(0)});
}
