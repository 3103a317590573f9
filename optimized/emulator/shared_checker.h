// Races and uninitialised reads in a block's shared memory. Checked form only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cells.h"
#include "interface.h"

namespace emulator {

struct Block;

class SharedChecker {
  public:
    void begin(Block& block, bool clocks_began_anew);

    void read(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at);
    void write(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at);
    void atomic(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at);
    // An asynchronous copy writes from its begin on, and is complete for its thread at its end.
    void copy_begins(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at);
    void copy_ends(const Thread& thread, uint32_t offset, uint32_t bytes, const void* at);
    // What the thread wrote before is there for warpgroups' products that come after it.
    void fence(const Thread& thread);
    // A product reads 16 bytes at any time from its begin on, and the warp's thread waits for it at its end.
    void product_begins(uint32_t offset, const void* at);
    void product_ends(const Thread& thread, uint32_t offset, const void* at);

  private:
    enum class State : uint16_t { Written, Atomic, InFlight };

    // The last write of a byte. Ticks of earlier blocks are older than the block's first, so nothing has to be
    // cleared.
    struct Write {
        uint32_t tick;
        uint16_t thread;
        State state;
        uint32_t place;
        uint32_t readers; // the warps that read it since
        uint32_t fences;  // of the thread, before it
    };
    // A warp's last read of a byte.
    struct Read {
        uint32_t tick;
        uint32_t lane; // or SEVERAL_LANES
    };
    static constexpr uint32_t SEVERAL_LANES = WARP_LANES;
    static constexpr uint32_t NEEDS_NO_FENCE = ~0u;
    // Calls `act` with each cell of the bytes. `overwrites` if it leaves them all with one history.
    template <class Act>
    void visit(uint32_t offset, uint32_t bytes, bool overwrites, Act act);
    void copy_history(size_t from, size_t to);
    bool written(const Write& write) const;
    // The warp whose read the thread's write would overtake, or -1.
    int overtaken_reader(const Thread& thread, size_t cell) const;
    void check_write(const Thread& thread, uint32_t offset, uint32_t bytes, State state, const void* at);
    bool note_early_read(const Thread& thread, size_t cell, const void* at);
    bool note_early_write(const Thread& thread, size_t cell, State state, const void* at);
    void settle(size_t cell, const void* at);
    bool note_unfenced(const Thread& thread, size_t cell, const void* at);
    bool note_product(const Thread& thread, size_t cell, const void* at);
    void note_read(const Thread& thread, uint32_t lane, size_t cell, const void* at);
    uint32_t fences_of(const Thread& thread) const { return static_cast<uint32_t>(fences_[thread.number].size()); }
    void note_in_flight(const Thread& thread, const Write& copy, const void* at);
    void note_race(const Thread& thread, const char* does, size_t cell, const std::string& who_did, uint32_t place,
                   const void* at);
    uint32_t place_of(const void* at);
    Read* reads_of(uint32_t warp) { return reads_.data() + size_t{warp} * writes_.size(); }
    const Read* reads_of(uint32_t warp) const { return reads_.data() + size_t{warp} * writes_.size(); }

    Block* block_ = nullptr;
    uint32_t warps_ = 0;
    Cells cells_;
    std::vector<Write> writes_;        // [cell]
    std::vector<Read> reads_;          // [warp][cell]
    std::vector<uint32_t> read_place_; // [cell], where it was last read
    // Of each thread, when its fences were.
    std::vector<std::vector<uint32_t>> fences_;
    // Of each 16 bytes, products in flight that read them, and where one of them began.
    struct Products {
        uint32_t count;
        uint32_t place;
    };
    std::vector<Products> products_;
    const void* last_at_ = nullptr;    // the last answer of `place_of`
    uint32_t last_place_ = 0;
};

} // namespace emulator
