#include "global_checker.h"

#include <algorithm>

#include "block.h"

namespace emulator {

namespace {

// How far from an allocation an access counts as out of its bounds, rather than wild.
constexpr uintptr_t NEAR = 1 << 20;

} // namespace

void GlobalChecker::begin(Block& block) {
    block_ = &block;
    const Stamps& stamps = block.launch->stamps;
    if (launch_ != stamps.first) {
        launch_ = stamps.first;
        later_stamps_.clear();
        told_at_.clear();
    }
    stamp_ = stamps.first + static_cast<uint32_t>(block.number);
    acted_ = false;
    last_ = nullptr;
    own_.clear();
    known_.clear();
    published_.clear();
    heard_.clear();
}

void GlobalChecker::stop_at_stranger(const Thread& thread, const void* address, uint32_t bytes, const char* does,
                                     const void* at) {
    const MemorySnapshot& memory = block_->launch->memory;
    const auto wanted = reinterpret_cast<uintptr_t>(address);
    const Allocation* nearest = nullptr;
    uintptr_t smallest = NEAR;
    for (const auto& allocation : memory) {
        const bool before = wanted < allocation->begin();
        const uintptr_t gap = before ? allocation->begin() - wanted : wanted - std::min(wanted, allocation->end());
        if (gap < smallest) {
            smallest = gap;
            nearest = allocation.get();
        }
    }
    const std::string who = block_->name(thread.number) + format(" %s %u bytes ", does, bytes);
    Thread& running = this_thread();
    if (nearest == nullptr) {
        block_->stop(running, Fault::WildAccess, at, who + format("at %p, far from any memory of the device", address));
    }
    const long long offset = static_cast<long long>(wanted) - static_cast<long long>(nearest->begin());
    block_->stop(running, Fault::OutOfBounds, at,
                 who + format("at offset %lld of %zu bytes", offset, nearest->bytes()));
}

size_t GlobalChecker::find(const Thread& thread, const void* address, uint32_t bytes, const char* does,
                           const void* at) {
    const auto wanted = reinterpret_cast<uintptr_t>(address);
    const auto holds = [&](const Allocation& allocation) {
        return wanted >= allocation.begin() && wanted + bytes <= allocation.end();
    };
    if (last_ == nullptr || !holds(*last_)) {
        const MemorySnapshot& memory = block_->launch->memory;
        const auto starts_after = [](uintptr_t value, const std::shared_ptr<Allocation>& a) {
            return value < a->begin();
        };
        const auto after = std::upper_bound(memory.begin(), memory.end(), wanted, starts_after);
        if (after == memory.begin() || !holds(**std::prev(after))) {
            stop_at_stranger(thread, address, bytes, does, at);
        }
        last_ = std::prev(after)->get();
    }
    acted_ = true;
    if (last_->freed) {
        block_->stop(this_thread(), Fault::UseAfterFree, at,
                     block_->name(thread.number) + format(" %s %u bytes of freed memory", does, bytes));
    }
    return wanted - last_->begin();
}

bool GlobalChecker::concurrent(uint32_t stamp) const {
    if (stamp == stamp_ || stamp < launch_) {
        return false;
    }
    const bool of_this_launch = block_->launch->stamps.contains(stamp) || later_stamps_.count(stamp) != 0;
    return of_this_launch && block_of(stamp) != block_->number && known_.count(stamp) == 0;
}

uint64_t GlobalChecker::block_of(uint32_t stamp) const {
    const Stamps& stamps = block_->launch->stamps;
    return stamps.contains(stamp) ? stamp - stamps.first : later_stamps_.at(stamp);
}

void GlobalChecker::note(Fault fault, const Thread& thread, size_t byte, const char* does, const std::string& history,
                         const void* at) {
    block_->note(fault, at,
                 block_->name(thread.number) + format(" %s byte %zu of %zu, which ", does, byte, last_->bytes()) +
                     history);
}

std::string GlobalChecker::of_block(uint32_t stamp) const {
    return format("block %llu of the same launch ", static_cast<unsigned long long>(block_of(stamp)));
}

// Reports that the byte was written too late to be touched now.
bool GlobalChecker::note_late_write(const Thread& thread, const Trace& trace, size_t byte, const char* does,
                                    const void* at) {
    const uint32_t writer = trace.writer & ~ATOMIC;
    if (concurrent(writer)) {
        note(Fault::GlobalRace, thread, byte, does, of_block(writer) + "writes", at);
        return true;
    }
    const bool by_this_block = writer == stamp_ || own_.count(writer) != 0;
    if (by_this_block && !block_->clocks.in_order(thread, trace.thread, trace.tick)) {
        note(Fault::GlobalRace, thread, byte, does,
             format("thread %u wrote, with nothing in between that orders them", trace.thread), at);
        return true;
    }
    return false;
}

void GlobalChecker::read(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    const size_t offset = find(thread, address, bytes, "reads", at);
    last_->visit(offset, bytes, false, [&](Trace& trace, size_t byte) {
        if (trace.writer == NOBODY) {
            note(Fault::UninitialisedGlobal, thread, byte, "reads", "nothing has written", at);
            trace.writer = HOST; // not to be reported again
        } else if (note_late_write(thread, trace, byte, "reads", at)) {
            trace.writer = HOST;
        }
        // The first reader of the launch is kept: blocks run one after another, so that no reader before it can be this
        // block.
        trace.reader = concurrent(trace.reader) ? trace.reader : stamp_;
    });
}

void GlobalChecker::check_write(const Thread& thread, const void* address, uint32_t bytes, const char* does,
                                uint32_t mark, const void* at) {
    const size_t offset = find(thread, address, bytes, does, at);
    const Trace here = {stamp_ | mark, NOBODY, block_->clocks.now(thread), thread.number};
    last_->visit(offset, bytes, true, [&](Trace& trace, size_t byte) {
        const bool both_atomic = mark == ATOMIC && (trace.writer & ATOMIC) != 0;
        const bool is_late = !both_atomic && note_late_write(thread, trace, byte, does, at);
        if (!is_late && concurrent(trace.reader)) {
            note(Fault::GlobalRace, thread, byte, does, of_block(trace.reader) + "reads", at);
        }
        trace = here;
    });
}

void GlobalChecker::write(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    check_write(thread, address, bytes, "writes", 0, at);
}

void GlobalChecker::atomic(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    const size_t offset = find(thread, address, bytes, "changes", at);
    if (!last_->is_written(offset)) {
        note(Fault::UninitialisedGlobal, thread, offset, "changes", "nothing has written", at);
    }
    check_write(thread, address, bytes, "changes", ATOMIC, at);
    Knowledge& told = told_at_[address];
    heard_.insert(told.begin(), told.end());
    told.insert(published_.begin(), published_.end());
}

void GlobalChecker::fence() {
    known_.insert(heard_.begin(), heard_.end());
    heard_.clear();
    if (acted_) {
        // What the block does from here on is not published yet, so it goes under a stamp of its own.
        own_.insert(stamp_);
        const Stamps next = Stamps::take(1);
        later_stamps_.emplace(next.first, block_->number);
        stamp_ = next.first;
        acted_ = false;
    }
    published_ = known_;
    published_.insert(own_.begin(), own_.end());
}

} // namespace emulator
