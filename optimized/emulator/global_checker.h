// Accesses of a block to global memory: bounds, lifetime, initialisation, and races with other blocks of the launch and
// within the block. Checked form only, where the blocks of a launch run one after another.
//
// A block is in order after another one only if it learnt of it: the other one made its writes visible with
// __threadfence and then changed a word atomically; this one changed the same word atomically and then called
// __threadfence.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "interface.h"
#include "memory.h"
#include "report.h"

namespace emulator {

struct Block;

class GlobalChecker {
  public:
    void begin(Block& block);

    void read(const Thread& thread, const void* address, uint32_t bytes, const void* at);
    void write(const Thread& thread, const void* address, uint32_t bytes, const void* at);
    void atomic(const Thread& thread, const void* address, uint32_t bytes, const void* at);
    void fence();

  private:
    using Knowledge = std::unordered_set<uint32_t>;

    // Where the bytes begin in `last_`. Stops the block if they may not be touched.
    size_t find(const Thread& thread, const void* address, uint32_t bytes, const char* does, const void* at);
    [[noreturn]] void stop_at_stranger(const Thread& thread, const void* address, uint32_t bytes, const char* does,
                                       const void* at);
    // Whether the access that left `stamp` may be at the same time as this block's.
    bool concurrent(uint32_t stamp) const;
    void check_write(const Thread& thread, const void* address, uint32_t bytes, const char* does, uint32_t mark,
                     const void* at);
    uint64_t block_of(uint32_t stamp) const;
    bool note_late_write(const Thread& thread, const Trace& trace, size_t byte, const char* does, const void* at);
    // `thread 1 of block 2 does byte 3 of 4, which history`
    void note(Fault fault, const Thread& thread, size_t byte, const char* does, const std::string& history,
              const void* at);
    std::string of_block(uint32_t stamp) const;

    Block* block_ = nullptr;
    uint32_t stamp_ = 0;         // of what this block does now
    bool acted_ = false;         // whether it did anything under that stamp
    Allocation* last_ = nullptr; // where its last access was
    Knowledge own_;              // its stamps before
    Knowledge known_;            // stamps that it is in order after
    Knowledge published_;        // what its next atomic change tells others
    Knowledge heard_;            // what atomic changes told it, known after a fence

    // For all blocks of one launch.
    uint32_t launch_ = 0;
    std::unordered_map<uint32_t, uint64_t> later_stamps_; // of blocks that went on after a fence
    std::unordered_map<const void*, Knowledge> told_at_;  // what atomic changes of a word told
};

} // namespace emulator
