// Device memory, and what the checked form knows of every byte of it, and the counting form of every sector.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cells.h"

namespace emulator {

// Who wrote and who read a byte last. A stamp stands for a part of a block of one launch; the stamps below FIRST_STAMP
// are special. The top bit of `writer` marks an atomic change.
struct Trace {
    uint32_t writer;
    uint32_t reader;
    uint32_t tick;   // of the thread that wrote, on its block's clocks
    uint32_t thread; // that wrote
};

constexpr uint32_t NOBODY = 0;
constexpr uint32_t HOST = 1;
constexpr uint32_t FIRST_STAMP = 2;
constexpr uint32_t ATOMIC = 1u << 31;

// A range of stamps that no other launch has.
struct Stamps {
    uint32_t first = 0;
    uint32_t count = 0;

    // Takes `count` new stamps; none are left if `first` is 0.
    static Stamps take(uint64_t count);
    bool contains(uint32_t stamp) const { return stamp - first < count; }
};

// What is kept of a device's memory beside its bytes.
enum class Kept {
    Nothing,
    Traces,  // of the checked form
    Sectors, // of the counting form: which were read and written by this launch
};

// One piece of device memory.
class Allocation {
  public:
    Allocation(size_t bytes, Kept kept);
    ~Allocation();
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    unsigned char* data() const { return data_; }
    size_t bytes() const { return bytes_; }
    uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data_); }
    uintptr_t end() const { return begin() + bytes_; }

    // Counting form only. Whether this is the launch's first access of its kind to the sector.
    bool touch(const void* address, bool writes);
    // Counting form only: a launch begins.
    void forget_touched();

    // Checked form only, as all that follows. Calls `act` with the trace of each cell of a range, and with its first
    // byte. `overwrites` if it leaves them all alike.
    template <class Act>
    void visit(size_t offset, size_t size, bool overwrites, Act act) {
        const auto copy = [this](size_t from, size_t to) { traces_[to] = traces_[from]; };
        cells_.visit(offset, size, overwrites, copy, [&](size_t cell) { act(traces_[cell], cells_.first_byte(cell)); });
    }
    bool has_traces() const { return traces_ != nullptr; }
    // Makes all of the range have one trace.
    void mark(size_t offset, size_t size, const Trace& trace) {
        visit(offset, size, true, [&](Trace& of_cell, size_t) { of_cell = trace; });
    }
    // Whether anything has written the byte.
    bool is_written(size_t byte) const { return traces_[cells_.of_byte(byte)].writer != NOBODY; }

    std::atomic<bool> freed{false};

  private:
    size_t trace_bytes() const { return std::max<size_t>(cells_.count(), 1) * sizeof(Trace); }
    // Words with a bit for each sector.
    size_t touched_words() const { return bytes_ / SECTOR_BYTES / BITS + 2; }

    static constexpr size_t SECTOR_BYTES = 32;
    static constexpr size_t BITS = 64;

    void* block_; // of the host's memory, in which the data lie aligned
    unsigned char* data_ = nullptr;
    size_t bytes_;
    Cells cells_;
    Trace* traces_ = nullptr; // [cell]
    // Bits of the sectors read, then of those written; allocated if they are kept.
    std::unique_ptr<std::atomic<uint64_t>[]> touched_;
    std::atomic<bool> is_touched_{false};
};

// All memory of a device at one moment, ordered by address: what a launch in the checked form may touch, and where one in
// the counting form is.
using MemorySnapshot = std::vector<std::shared_ptr<Allocation>>;

// A device's memory.
class Memory {
  public:
    explicit Memory(Kept kept) : kept_of_all_(kept) {}

    // Null if there is no memory.
    unsigned char* allocate(size_t bytes);
    bool free(const void* data);
    // The allocation that holds all of the range, or null.
    std::shared_ptr<Allocation> find(const void* data, size_t bytes) const;
    MemorySnapshot snapshot() const;
    size_t used() const;

  private:
    // In the checked form, freed memory is kept for a while, so that its late users are found.
    static constexpr size_t MAX_KEPT_BYTES = 64 << 20;

    const Kept kept_of_all_;
    mutable std::mutex mutex_;
    std::map<uintptr_t, std::shared_ptr<Allocation>> allocations_;
    std::vector<std::shared_ptr<Allocation>> kept_;
    size_t used_ = 0;
    size_t kept_bytes_ = 0;
};

} // namespace emulator
