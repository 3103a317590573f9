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
    };
    // A warp's last read of a byte.
    struct Read {
        uint32_t tick;
        uint32_t lane; // or SEVERAL_LANES
    };
    static constexpr uint32_t SEVERAL_LANES = WARP_LANES;
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
    const void* last_at_ = nullptr;    // the last answer of `place_of`
    uint32_t last_place_ = 0;
};

} // namespace emulator
