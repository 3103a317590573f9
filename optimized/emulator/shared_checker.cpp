#include "shared_checker.h"

#include <algorithm>

#include "block.h"

namespace emulator {

namespace {

// When the clock has come this far, it starts anew with the next block.
constexpr uint32_t LAST_TICK = 1u << 31;

} // namespace

void SharedChecker::begin(Block& block) {
    block_ = &block;
    const uint32_t bytes = block.launch->shape.shared_bytes;
    const bool fits = writes_.size() >= bytes && warps_ == block.warp_count;
    if (!fits || tick_ >= LAST_TICK) {
        warps_ = block.warp_count;
        tick_ = 0;
        writes_.assign(bytes, {});
        reads_.assign(size_t{bytes} * warps_, {});
        read_at_.assign(bytes, 0);
    }
    settled_ = advance();
    const uint32_t now = advance();
    for (uint32_t warp = 0; warp < warps_; ++warp) {
        clocks_[warp].now = now;
        std::fill_n(clocks_[warp].knows, warps_, settled_);
        clocks_[warp].lanes.reset();
    }
}

uint32_t SharedChecker::advance() {
    tick_ += 1;
    return tick_;
}

void SharedChecker::barrier(uint32_t warps) {
    uint32_t known[MAX_WARPS] = {};
    for (uint32_t rest = warps; rest != 0; rest &= rest - 1) {
        const int warp = __builtin_ctz(rest);
        Clock& clock = clocks_[warp];
        clock.knows[warp] = clock.now;
        for (uint32_t other = 0; other < warps_; ++other) {
            known[other] = std::max(known[other], clock.knows[other]);
        }
    }
    for (uint32_t rest = warps; rest != 0; rest &= rest - 1) {
        Clock& clock = clocks_[__builtin_ctz(rest)];
        std::copy_n(known, warps_, clock.knows);
        clock.now = advance();
    }
}

void SharedChecker::sync_warp(uint32_t warp, uint32_t lanes) {
    Clock& clock = clocks_[warp];
    if (lanes == block_->warps[warp].alive) {
        clock.knows[warp] = clock.now;
        clock.now = advance();
        return;
    }
    if (clock.lanes == nullptr) {
        clock.lanes = std::make_unique<uint32_t[][WARP_LANES]>(WARP_LANES);
    }
    uint32_t known[WARP_LANES] = {};
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        if (lanes >> lane & 1) {
            clock.lanes[lane][lane] = clock.now;
            for (uint32_t other = 0; other < WARP_LANES; ++other) {
                known[other] = std::max(known[other], clock.lanes[lane][other]);
            }
        }
    }
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        if (lanes >> lane & 1) {
            std::copy_n(known, WARP_LANES, clock.lanes[lane]);
        }
    }
    clock.now = advance();
}

// Whether `thread` runs after what `lane` of `warp` did at `tick`.
bool SharedChecker::in_order(const Thread& thread, uint32_t warp, uint32_t lane, uint32_t tick) const {
    const uint32_t own_warp = thread.number / WARP_LANES;
    const uint32_t own_lane = thread.number % WARP_LANES;
    const Clock& clock = clocks_[own_warp];
    if (tick <= clock.knows[warp]) {
        return true;
    }
    if (warp != own_warp) {
        return false;
    }
    return lane == own_lane || (clock.lanes != nullptr && lane < WARP_LANES && tick <= clock.lanes[own_lane][lane]);
}

bool SharedChecker::in_order_after(const Thread& thread, const Write& write) const {
    return in_order(thread, write.thread / WARP_LANES, write.thread % WARP_LANES, write.tick);
}

std::string SharedChecker::describe(uint32_t place) const {
    return block_->launch->image.lines().describe(place);
}

void SharedChecker::note_in_flight(const Thread& thread, const Write& copy, const void* at) {
    const char* const whose = copy.thread == thread.number ? "its own" : "another thread's";
    block_->note(Fault::CopyInFlight, at,
                 block_->name(thread.number) + format(" touches bytes that %s copy is still writing, begun at ", whose) +
                     describe(copy.at));
}

void SharedChecker::read(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    const uint32_t warp = thread.number / WARP_LANES;
    const uint32_t lane = thread.number % WARP_LANES;
    const uint32_t now = clocks_[warp].now;
    const uint32_t place = block_->launch->image.place_of(at);
    for (uint32_t byte = offset; byte < offset + bytes; ++byte) {
        Write& last = writes_[byte];
        if (!written(last)) {
            block_->note(Fault::UninitialisedShared, at,
                         block_->name(thread.number) + format(" reads byte %u, which nothing has written", byte));
            last = {settled_, 0, State::Written, place};
        } else if (last.state == State::InFlight) {
            note_in_flight(thread, last, at);
            last = {settled_, 0, State::Written, place};
        } else if (!in_order_after(thread, last)) {
            block_->note(Fault::SharedRace, at,
                         block_->name(thread.number) + format(" reads byte %u, which thread %u wrote at ", byte, last.thread) +
                             describe(last.at) + ", with nothing in between that orders them");
            last = {settled_, 0, State::Written, place};
        }
        Read& own = read_of(byte, warp);
        const bool first = own.tick != now;
        own.lane = first || own.lane == lane ? lane : SEVERAL_LANES;
        own.tick = now;
        read_at_[byte] = place;
    }
}

int SharedChecker::overtaken_reader(const Thread& thread, uint32_t offset) const {
    for (uint32_t warp = 0; warp < warps_; ++warp) {
        const Read& read = read_of(offset, warp);
        if (read.tick >= settled_ && !in_order(thread, warp, read.lane, read.tick)) {
            return static_cast<int>(warp);
        }
    }
    return -1;
}

// Reports what a write of one byte comes too early for.
bool SharedChecker::note_conflict(const Thread& thread, uint32_t offset, State state, const void* at) {
    const Write& last = writes_[offset];
    if (written(last)) {
        if (last.state == State::InFlight) {
            note_in_flight(thread, last, at);
            return true;
        }
        const bool both_atomic = state == State::Atomic && last.state == State::Atomic;
        if (!both_atomic && !in_order_after(thread, last)) {
            block_->note(Fault::SharedRace, at,
                         block_->name(thread.number) + format(" writes byte %u, which thread %u wrote at ", offset, last.thread) +
                             describe(last.at) + ", with nothing in between that orders them");
            return true;
        }
    }
    const int reader = overtaken_reader(thread, offset);
    if (reader >= 0) {
        block_->note(Fault::SharedRace, at,
                     block_->name(thread.number) + format(" writes byte %u, which warp %d read at ", offset, reader) +
                         describe(read_at_[offset]) + ", with nothing in between that orders them");
        return true;
    }
    return false;
}

void SharedChecker::check_write(const Thread& thread, uint32_t offset, uint32_t bytes, State state, const void* at) {
    const uint32_t place = block_->launch->image.place_of(at);
    const uint32_t now = clocks_[thread.number / WARP_LANES].now;
    bool conflict = false;
    for (uint32_t byte = offset; byte < offset + bytes; ++byte) {
        conflict = conflict || note_conflict(thread, byte, state, at);
        if (conflict) {
            // What was there is reported once, not again by whoever comes next.
            std::fill_n(reads_.begin() + static_cast<ptrdiff_t>(size_t{byte} * warps_), warps_, Read{});
        }
        writes_[byte] = {now, static_cast<uint16_t>(thread.number), state, place};
    }
}

void SharedChecker::write(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    check_write(thread, offset, bytes, State::Written, at);
}

void SharedChecker::atomic(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    for (uint32_t byte = offset; byte < offset + bytes; ++byte) {
        if (!written(writes_[byte])) {
            block_->note(Fault::UninitialisedShared, at,
                         block_->name(thread.number) + format(" changes byte %u, which nothing has written", byte));
            break;
        }
    }
    check_write(thread, offset, bytes, State::Atomic, at);
}

void SharedChecker::copy_begins(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    check_write(thread, offset, bytes, State::InFlight, at);
}

void SharedChecker::copy_ends(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    const uint32_t place = block_->launch->image.place_of(at);
    const uint32_t now = clocks_[thread.number / WARP_LANES].now;
    const Write complete = {now, static_cast<uint16_t>(thread.number), State::Written, place};
    std::fill_n(writes_.begin() + offset, bytes, complete);
}

} // namespace emulator
