#include "shared_checker.h"

#include <algorithm>

#include "block.h"

namespace emulator {

void SharedChecker::begin(Block& block, bool clocks_began_anew) {
    block_ = &block;
    const uint32_t bytes = block.launch->shape.shared_bytes;
    const bool fits = cells_.bytes() >= bytes && warps_ == block.warp_count;
    if (!fits || clocks_began_anew) {
        cells_ = Cells(std::max<size_t>(bytes, cells_.bytes()));
        warps_ = block.warp_count;
        writes_.assign(cells_.count(), {});
        reads_.assign(cells_.count() * warps_, {});
        read_place_.assign(cells_.count(), 0);
    }
    fences_.resize(MAX_THREADS);
    for (uint32_t thread = 0; thread < block.threads; ++thread) {
        fences_[thread].clear();
    }
    products_.assign(cells_.bytes() / Cells::LINE_BYTES, {0, 0});
    last_at_ = nullptr;
}

void SharedChecker::copy_history(size_t from, size_t to) {
    writes_[to] = writes_[from];
    read_place_[to] = read_place_[from];
    for (uint32_t readers = writes_[from].readers; readers != 0; readers &= readers - 1) {
        Read* const reads = reads_of(static_cast<uint32_t>(__builtin_ctz(readers)));
        reads[to] = reads[from];
    }
}

template <class Act>
void SharedChecker::visit(uint32_t offset, uint32_t bytes, bool overwrites, Act act) {
    cells_.visit(offset, bytes, overwrites, [this](size_t from, size_t to) { copy_history(from, to); }, act);
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

void SharedChecker::note_race(const Thread& thread, const char* does, size_t cell, const std::string& who_did,
                              uint32_t place, const void* at) {
    block_->note(Fault::SharedRace, at,
                 block_->name(thread.number) + format(" %s byte %zu, which ", does, cells_.first_byte(cell)) + who_did +
                     " at " + block_->launch->image.lines().describe(place) +
                     ", with nothing in between that orders them");
}

// Reports what a read comes too early for.
bool SharedChecker::note_early_read(const Thread& thread, size_t cell, const void* at) {
    const Write& last = writes_[cell];
    if (!written(last)) {
        block_->note(Fault::UninitialisedShared, at,
                     block_->name(thread.number) +
                         format(" reads byte %zu, which nothing has written", cells_.first_byte(cell)));
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
    visit(offset, bytes, false, [&](size_t cell) {
        if (note_early_read(thread, cell, at)) {
            settle(cell, at);
        }
        note_read(thread, thread.number % WARP_LANES, cell, at);
    });
}

// What is reported counts as settled, not to be reported again.
void SharedChecker::settle(size_t cell, const void* at) {
    writes_[cell] = {block_->clocks.first(), 0, State::Written, place_of(at), 0, NEEDS_NO_FENCE};
}

void SharedChecker::note_read(const Thread& thread, uint32_t lane, size_t cell, const void* at) {
    const uint32_t warp = thread.number / WARP_LANES;
    const uint32_t now = block_->clocks.now(thread);
    Read& own = reads_of(warp)[cell];
    writes_[cell].readers |= 1u << warp;
    const bool first = own.tick != now;
    own = {now, first || own.lane == lane ? lane : SEVERAL_LANES};
    read_place_[cell] = place_of(at);
}

void SharedChecker::fence(const Thread& thread) {
    fences_[thread.number].push_back(block_->clocks.now(thread));
}

void SharedChecker::product_begins(uint32_t offset, const void* at) {
    Products& products = products_[offset / Cells::LINE_BYTES];
    products.count += 1;
    products.place = place_of(at);
}

// Reports a product that reads what was written without a fence, by its writer, that the thread is after.
bool SharedChecker::note_unfenced(const Thread& thread, size_t cell, const void* at) {
    const Write& last = writes_[cell];
    const std::vector<uint32_t>& fences = fences_[last.thread];
    if (last.fences == NEEDS_NO_FENCE ||
        (last.fences < fences.size() && block_->clocks.in_order(thread, last.thread, fences[last.fences]))) {
        return false;
    }
    block_->note(Fault::MissingFence, at,
                 block_->name(thread.number) +
                     format(" multiplies byte %zu, which thread %u wrote at ", cells_.first_byte(cell), last.thread) +
                     block_->launch->image.lines().describe(last.place) + ", with no fence_for_warpgroups after it");
    return true;
}

void SharedChecker::product_ends(const Thread& thread, uint32_t offset, const void* at) {
    products_[offset / Cells::LINE_BYTES].count -= 1;
    visit(offset, Cells::LINE_BYTES, false, [&](size_t cell) {
        if (note_early_read(thread, cell, at) || note_unfenced(thread, cell, at)) {
            settle(cell, at);
        }
        note_read(thread, SEVERAL_LANES, cell, at);
    });
}

// Reports a write to what a product may still read.
bool SharedChecker::note_product(const Thread& thread, size_t cell, const void* at) {
    const Products& products = products_[cells_.first_byte(cell) / Cells::LINE_BYTES];
    if (products.count == 0) {
        return false;
    }
    block_->note(Fault::ProductInFlight, at,
                 block_->name(thread.number) +
                     format(" writes byte %zu, which a product still reads, begun at ", cells_.first_byte(cell)) +
                     block_->launch->image.lines().describe(products.place));
    return true;
}

int SharedChecker::overtaken_reader(const Thread& thread, size_t cell) const {
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
bool SharedChecker::note_early_write(const Thread& thread, size_t cell, State state, const void* at) {
    if (note_product(thread, cell, at)) {
        return true;
    }
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
    const Write here = {now, static_cast<uint16_t>(thread.number), state, place_of(at), 0, fences_of(thread)};
    bool reported = false;
    visit(offset, bytes, true, [&](size_t cell) {
        reported = reported || note_early_write(thread, cell, state, at);
        writes_[cell] = here;
    });
}

void SharedChecker::write(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    check_write(thread, offset, bytes, State::Written, at);
}

void SharedChecker::atomic(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at) {
    if (!written(writes_[cells_.of_byte(offset)])) {
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
    const Write complete = {now, static_cast<uint16_t>(thread.number), State::Written, place_of(at), 0, fences_of(thread)};
    visit(offset, bytes, true, [&](size_t cell) { writes_[cell] = complete; });
}

} // namespace emulator
