#include "shared_checker.h"

#include <algorithm>

#include "block.h"

namespace emulator {

void SharedChecker::begin(Block& block, bool clocks_began_anew) {
    block_ = &block;
    const uint32_t bytes = (block.launch->shape.shared_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    const bool fits = bytes_ >= bytes && warps_ == block.warp_count;
    if (!fits || clocks_began_anew) {
        bytes_ = std::max(bytes, bytes_);
        warps_ = block.warp_count;
        const size_t lines = bytes_ / LINE_BYTES;
        const size_t cells = bytes_ + lines;
        writes_.assign(cells, {});
        reads_.assign(cells * warps_, {});
        read_place_.assign(cells, 0);
        whole_.assign(lines, true);
    }
    last_at_ = nullptr;
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

bool SharedChecker::written(const Write& write) const {
    return write.tick >= block_->clocks.first();
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
    if (!block_->clocks.in_order(thread, last.thread, last.tick)) {
        note_race(thread, "reads", cell, format("thread %u wrote", last.thread), last.place, at);
        return true;
    }
    return false;
}

void SharedChecker::read(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    const uint32_t warp = thread.number / WARP_LANES;
    const uint32_t lane = thread.number % WARP_LANES;
    const uint32_t now = block_->clocks.now(thread);
    const uint32_t place = place_of(at);
    Read* const own = reads_of(warp);
    for_cells(offset, bytes, false, [&](uint32_t cell) {
        if (note_early_read(thread, cell, at)) {
            // What is reported counts as settled, not to be reported again.
            writes_[cell] = {block_->clocks.first(), 0, State::Written, place, 0};
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
        if (!block_->clocks.in_order(thread, static_cast<uint32_t>(warp), read.lane, read.tick)) {
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
    if (!both_atomic && !block_->clocks.in_order(thread, last.thread, last.tick)) {
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
    const uint32_t now = block_->clocks.now(thread);
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
    const uint32_t now = block_->clocks.now(thread);
    const Write complete = {now, static_cast<uint16_t>(thread.number), State::Written, place_of(at), 0};
    for_cells(offset, bytes, true, [&](uint32_t cell) { writes_[cell] = complete; });
}

} // namespace emulator
