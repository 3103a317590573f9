// Which thread of a block runs next.
#pragma once

#include <cstdint>

#include "interface.h"

namespace emulator {

enum class Order : uint32_t { Forward, Reverse, Adversarial };

// An order of threads. All three are legal on a GPU, so a kernel whose result depends on them is wrong.
struct Schedule {
    Order order = Order::Forward;
    uint64_t seed = 0;

    // The block that is `position`-th in line of `blocks` blocks.
    uint64_t block_at(uint64_t position, uint64_t blocks) const;
};

struct Warp;

// Follows a schedule through one block.
class Scheduler {
  public:
    void begin(const Schedule& schedule, uint64_t block, uint32_t warps);
    // The number of a thread that can run, or -1. `current` is the warp that ran last.
    int pick(const Warp* warps, uint32_t count, uint32_t current);
    // Whether a thread that need not wait lets others go first.
    bool yields() { return order_ == Order::Adversarial && random() % 4 == 0; }
    // Whether an asynchronous copy is made at once, not when it is waited for: both are legal.
    bool copies_at_once() { return order_ == Order::Reverse || (order_ == Order::Adversarial && random() % 2 == 0); }

  private:
    uint64_t random();
    int pick_adversarial(const Warp* warps, uint32_t count, uint32_t current);

    Order order_ = Order::Forward;
    uint64_t state_ = 1;
    // Adversarial: the ready warp of the highest priority runs. A demoted warp falls below all others.
    int64_t priority_[MAX_WARPS] = {};
    int64_t lowest_ = 0;
};

} // namespace emulator
