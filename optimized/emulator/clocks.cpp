#include "clocks.h"

#include <algorithm>

#include "block.h"

namespace emulator {

namespace {

// When the clock has come this far, it begins anew with the next block.
constexpr uint32_t LAST_TICK = 1u << 31;

} // namespace

bool Clocks::begin(const Block& block) {
    block_ = &block;
    warps_ = block.warp_count;
    const bool anew = tick_ >= LAST_TICK;
    tick_ = anew ? 0 : tick_;
    first_ = advance();
    const uint32_t now = advance();
    for (uint32_t warp = 0; warp < warps_; ++warp) {
        clocks_[warp].now = now;
        std::fill_n(clocks_[warp].knows, warps_, first_);
        clocks_[warp].lanes.reset();
    }
    return anew;
}

uint32_t Clocks::advance() {
    tick_ += 1;
    return tick_;
}

void Clocks::barrier(uint32_t warps) {
    uint32_t known[MAX_WARPS] = {};
    for (uint32_t rest = warps; rest != 0; rest &= rest - 1) {
        const int warp = __builtin_ctz(rest);
        Clock& clock = clocks_[warp];
        clock.knows[warp] = clock.now;
        for (uint32_t other = 0; other < warps_; ++other) {
            known[other] = std::max(known[other], clock.knows[other]);
        }
    }
    for (uint32_t rest = warps; rest != 0; rest &= rest - 1) {
        Clock& clock = clocks_[__builtin_ctz(rest)];
        std::copy_n(known, warps_, clock.knows);
        clock.now = advance();
    }
}

void Clocks::sync_warp(uint32_t warp, uint32_t lanes) {
    Clock& clock = clocks_[warp];
    if (lanes == block_->warps[warp].all) {
        clock.knows[warp] = clock.now;
        clock.now = advance();
        return;
    }
    if (clock.lanes == nullptr) {
        clock.lanes = std::make_unique<uint32_t[][WARP_LANES]>(WARP_LANES);
    }
    uint32_t known[WARP_LANES] = {};
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        if (lanes >> lane & 1) {
            clock.lanes[lane][lane] = clock.now;
            for (uint32_t other = 0; other < WARP_LANES; ++other) {
                known[other] = std::max(known[other], clock.lanes[lane][other]);
            }
        }
    }
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        if (lanes >> lane & 1) {
            std::copy_n(known, WARP_LANES, clock.lanes[lane]);
        }
    }
    clock.now = advance();
}

bool Clocks::in_order(const Thread& thread, uint32_t warp, uint32_t lane, uint32_t tick) const {
    const uint32_t own_warp = thread.number / WARP_LANES;
    const uint32_t own_lane = thread.number % WARP_LANES;
    const Clock& clock = clocks_[own_warp];
    if (tick <= clock.knows[warp]) {
        return true;
    }
    if (warp != own_warp) {
        return false;
    }
    return lane == own_lane || (clock.lanes != nullptr && lane < WARP_LANES && tick <= clock.lanes[own_lane][lane]);
}

} // namespace emulator
