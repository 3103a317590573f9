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

Trace* GlobalChecker::find(const Thread& thread, const void* address, uint32_t bytes, const char* does,
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
    return last_->traces() + (wanted - last_->begin());
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

void GlobalChecker::note_race(const Thread& thread, const void* address, const char* does, uint32_t other,
                              const char* did, const void* at) {
    const auto offset = reinterpret_cast<uintptr_t>(address) - last_->begin();
    block_->note(Fault::GlobalRace, at,
                 block_->name(thread.number) + format(" %s byte %zu of %zu, which block %llu of the same launch %s",
                                                      does, static_cast<size_t>(offset), last_->bytes(),
                                                      static_cast<unsigned long long>(block_of(other)), did));
}

void GlobalChecker::read(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    Trace* const traces = find(thread, address, bytes, "reads", at);
    // Neighbours mostly have the same history, which is judged once.
    Trace judged = {};
    Trace after = {};
    for (uint32_t i = 0; i < bytes; ++i) {
        Trace& trace = traces[i];
        if (i != 0 && trace.writer == judged.writer && trace.reader == judged.reader) {
            trace = after;
            continue;
        }
        judged = trace;
        const uint32_t writer = trace.writer & ~ATOMIC;
        const auto* const byte = static_cast<const unsigned char*>(address) + i;
        if (trace.writer == NOBODY) {
            const auto offset = reinterpret_cast<uintptr_t>(byte) - last_->begin();
            block_->note(Fault::UninitialisedGlobal, at,
                         block_->name(thread.number) + format(" reads byte %zu of %zu, which nothing has written",
                                                              static_cast<size_t>(offset), last_->bytes()));
            trace.writer = HOST;
        } else if (concurrent(writer)) {
            note_race(thread, byte, "reads", writer, "writes", at);
            trace.writer = HOST;
        }
        // The first reader of the launch is kept: blocks run one after another, so no reader before it can be this
        // block.
        trace.reader = concurrent(trace.reader) ? trace.reader : stamp_;
        after = trace;
    }
}

void GlobalChecker::check_write(const Thread& thread, const void* address, uint32_t bytes, const char* does,
                                uint32_t mark, const void* at) {
    Trace* const traces = find(thread, address, bytes, does, at);
    for (uint32_t i = 0; i < bytes; ++i) {
        Trace& trace = traces[i];
        const auto* const byte = static_cast<const unsigned char*>(address) + i;
        const uint32_t writer = trace.writer & ~ATOMIC;
        const bool both_atomic = mark == ATOMIC && (trace.writer & ATOMIC) != 0;
        if (!both_atomic && concurrent(writer)) {
            note_race(thread, byte, does, writer, "writes", at);
        } else if (concurrent(trace.reader)) {
            note_race(thread, byte, does, trace.reader, "reads", at);
            trace.reader = NOBODY;
        }
        trace.writer = stamp_ | mark;
    }
}

void GlobalChecker::write(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    check_write(thread, address, bytes, "writes", 0, at);
}

void GlobalChecker::atomic(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    if (find(thread, address, bytes, "changes", at)->writer == NOBODY) {
        block_->note(Fault::UninitialisedGlobal, at,
                     block_->name(thread.number) + " changes bytes atomically that nothing has written");
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
