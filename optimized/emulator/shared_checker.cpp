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
    const uint32_t bytes = (block.launch->shape.shared_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    const bool fits = bytes_ >= bytes && warps_ == block.warp_count;
    if (!fits || tick_ >= LAST_TICK) {
        bytes_ = std::max(bytes, bytes_);
        warps_ = block.warp_count;
        tick_ = 0;
        const size_t lines = bytes_ / LINE_BYTES;
        const size_t cells = bytes_ + lines;
        writes_.assign(cells, {});
        reads_.assign(cells * warps_, {});
        read_place_.assign(cells, 0);
        whole_.assign(lines, true);
    }
    last_at_ = nullptr;
    settled_ = advance();
    const uint32_t now = advance();
    for (uint32_t warp = 0; warp < warps_; ++warp) {
        clocks_[warp].now = now;
        std::fill_n(clocks_[warp].knows, warps_, settled_);
        clocks_[warp].lanes.reset();
    }
}

void SharedChecker::split(uint32_t line) {
    const uint32_t cell = cell_of_line(line);
    const ptrdiff_t first = ptrdiff_t{line} * LINE_BYTES;
    std::fill_n(writes_.begin() + first, LINE_BYTES, writes_[cell]);
    std::fill_n(read_place_.begin() + first, LINE_BYTES, read_place_[cell]);
    for (uint32_t warp = 0; warp < warps_; ++warp) {
        std::fill_n(reads_of(warp) + first, LINE_BYTES, reads_of(warp)[cell]);
    }
    whole_[line] = false;
}

template <class Act>
void SharedChecker::for_cells(uint32_t offset, uint32_t bytes, bool overwrites, Act act) {
    const uint32_t end = offset + bytes;
    for (uint32_t byte = offset; byte < end;) {
        const uint32_t line = byte / LINE_BYTES;
        const uint32_t end_here = std::min(end, (line + 1) * LINE_BYTES);
        const bool is_whole_line = end_here - byte == LINE_BYTES;
        if (is_whole_line && whole_[line]) {
            act(cell_of_line(line));
            byte = end_here;
            continue;
        }
        if (whole_[line]) {
            split(line);
        }
        for (; byte < end_here; ++byte) {
            act(byte);
        }
        if (is_whole_line && overwrites) {
            writes_[cell_of_line(line)] = writes_[byte - 1];
            whole_[line] = true;
        }
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
    if (lanes == block_->warps[warp].all) {
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

uint32_t SharedChecker::place_of(const void* at) {
    if (at != last_at_) {
        last_at_ = at;
        last_place_ = block_->launch->image.place_of(at);
    }
    return last_place_;
}

void SharedChecker::note_in_flight(const Thread& thread, const Write& copy, const void* at) {
    const char* const whose = copy.thread == thread.number ? "its own" : "another thread's";
    block_->note(Fault::CopyInFlight, at,
                 block_->name(thread.number) +
                     format(" touches bytes that %s copy is still writing, begun at ", whose) +
                     block_->launch->image.lines().describe(copy.place));
}

void SharedChecker::note_race(const Thread& thread, const char* does, uint32_t cell, const std::string& who_did,
                              uint32_t place, const void* at) {
    block_->note(Fault::SharedRace, at,
                 block_->name(thread.number) + format(" %s byte %u, which ", does, first_byte(cell)) + who_did +
                     " at " + block_->launch->image.lines().describe(place) +
                     ", with nothing in between that orders them");
}

// Reports what a read comes too early for.
bool SharedChecker::note_early_read(const Thread& thread, uint32_t cell, const void* at) {
    const Write& last = writes_[cell];
    if (!written(last)) {
        block_->note(Fault::UninitialisedShared, at,
                     block_->name(thread.number) +
                         format(" reads byte %u, which nothing has written", first_byte(cell)));
        return true;
    }
    if (last.state == State::InFlight) {
        note_in_flight(thread, last, at);
        return true;
    }
    if (!in_order_after(thread, last)) {
        note_race(thread, "reads", cell, format("thread %u wrote", last.thread), last.place, at);
        return true;
    }
    return false;
}

void SharedChecker::read(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    const uint32_t warp = thread.number / WARP_LANES;
    const uint32_t lane = thread.number % WARP_LANES;
    const uint32_t now = clocks_[warp].now;
    const uint32_t place = place_of(at);
    Read* const own = reads_of(warp);
    for_cells(offset, bytes, false, [&](uint32_t cell) {
        if (note_early_read(thread, cell, at)) {
            // What is reported counts as settled, not to be reported again.
            writes_[cell] = {settled_, 0, State::Written, place, 0};
        }
        writes_[cell].readers |= 1u << warp;
        const bool first = own[cell].tick != now;
        own[cell] = {now, first || own[cell].lane == lane ? lane : SEVERAL_LANES};
        read_place_[cell] = place;
    });
}

int SharedChecker::overtaken_reader(const Thread& thread, uint32_t cell) const {
    for (uint32_t readers = writes_[cell].readers; readers != 0; readers &= readers - 1) {
        const int warp = __builtin_ctz(readers);
        const Read& read = reads_of(static_cast<uint32_t>(warp))[cell];
        if (!in_order(thread, static_cast<uint32_t>(warp), read.lane, read.tick)) {
            return warp;
        }
    }
    return -1;
}

// Reports what a write comes too early for.
bool SharedChecker::note_early_write(const Thread& thread, uint32_t cell, State state, const void* at) {
    const Write& last = writes_[cell];
    if (!written(last)) {
        return false;
    }
    if (last.state == State::InFlight) {
        note_in_flight(thread, last, at);
        return true;
    }
    const bool both_atomic = state == State::Atomic && last.state == State::Atomic;
    if (!both_atomic && !in_order_after(thread, last)) {
        note_race(thread, "writes", cell, format("thread %u wrote", last.thread), last.place, at);
        return true;
    }
    const int reader = overtaken_reader(thread, cell);
    if (reader >= 0) {
        note_race(thread, "writes", cell, format("warp %d read", reader), read_place_[cell], at);
        return true;
    }
    return false;
}

void SharedChecker::check_write(const Thread& thread, uint32_t offset, uint32_t bytes, State state, const void* at) {
    const uint32_t now = clocks_[thread.number / WARP_LANES].now;
    const Write here = {now, static_cast<uint16_t>(thread.number), state, place_of(at), 0};
    bool reported = false;
    for_cells(offset, bytes, true, [&](uint32_t cell) {
        reported = reported || note_early_write(thread, cell, state, at);
        writes_[cell] = here;
    });
}

void SharedChecker::write(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    check_write(thread, offset, bytes, State::Written, at);
}

void SharedChecker::atomic(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    const uint32_t line = offset / LINE_BYTES;
    const uint32_t cell = whole_[line] ? cell_of_line(line) : offset;
    if (!written(writes_[cell])) {
        block_->note(Fault::UninitialisedShared, at,
                     block_->name(thread.number) + format(" changes byte %u, which nothing has written", offset));
    }
    check_write(thread, offset, bytes, State::Atomic, at);
}

void SharedChecker::copy_begins(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    check_write(thread, offset, bytes, State::InFlight, at);
}

void SharedChecker::copy_ends(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    const uint32_t now = clocks_[thread.number / WARP_LANES].now;
    const Write complete = {now, static_cast<uint16_t>(thread.number), State::Written, place_of(at), 0};
    for_cells(offset, bytes, true, [&](uint32_t cell) { writes_[cell] = complete; });
}

} // namespace emulator
