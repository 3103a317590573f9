// What is before what in a block. Checked form only.
//
// Every warp has a clock that its synchronisations advance, and knows of each other warp up to which tick its actions
// lie before. Within a warp, __syncwarp orders the lanes of its mask; shuffles, votes and matrix instructions order
// nothing, as on a GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "interface.h"

namespace emulator {

struct Block;

class Clocks {
  public:
    // For a new block. True if ticks begin anew, so that those of earlier blocks mean nothing any more.
    bool begin(const Block& block);

    // The warps of the set wait for one another.
    void barrier(uint32_t warps);
    void sync_warp(uint32_t warp, uint32_t lanes);

    // The tick of what the thread does now.
    uint32_t now(const Thread& thread) const { return clocks_[thread.number / WARP_LANES].now; }
    // The first tick of the block, before all that its threads do. Ticks of earlier blocks are smaller.
    uint32_t first() const { return first_; }
    // Whether the thread is after what `lane` of `warp` did at `tick`; a lane beyond the warp's stands for all of them.
    bool in_order(const Thread& thread, uint32_t warp, uint32_t lane, uint32_t tick) const;
    bool in_order(const Thread& thread, uint32_t other_thread, uint32_t tick) const {
        return in_order(thread, other_thread / WARP_LANES, other_thread % WARP_LANES, tick);
    }

  private:
    struct Clock {
        uint32_t now;
        uint32_t knows[MAX_WARPS];
        // By partial masks: up to which tick a lane knows another's actions.
        std::unique_ptr<uint32_t[][WARP_LANES]> lanes;
    };

    uint32_t advance();

    const Block* block_ = nullptr;
    uint32_t warps_ = 0;
    uint32_t tick_ = 0;
    uint32_t first_ = 0;
    Clock clocks_[MAX_WARPS];
};

} // namespace emulator
