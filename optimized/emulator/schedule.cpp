#include "schedule.h"

#include "block.h"

namespace emulator {

namespace {

// How often the running warp is demoted: rarely, so that one warp runs far ahead of another (Burckhardt et al., "A
// randomized scheduler with probabilistic guarantees of finding bugs").
constexpr uint64_t PICKS_PER_DEMOTION = 97;

uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
    return b == 0 ? a : greatest_common_divisor(b, a % b);
}

} // namespace

uint64_t Schedule::block_at(uint64_t position, uint64_t blocks) const {
    switch (order) {
    case Order::Forward: return position;
    case Order::Reverse: return blocks - 1 - position;
    case Order::Adversarial: break;
    }
    // A step without a common divisor visits every block once.
    uint64_t step = mix(seed) % blocks;
    while (greatest_common_divisor(step, blocks) != 1) {
        step += 1;
    }
    const uint64_t first = mix(~seed) % blocks;
    return static_cast<uint64_t>((static_cast<unsigned __int128>(position) * step + first) % blocks);
}

void Scheduler::begin(const Schedule& schedule, uint64_t block, uint32_t warps) {
    order_ = schedule.order;
    if (order_ != Order::Adversarial) {
        return;
    }
    state_ = mix(schedule.seed + mix(block + 1)) | 1;
    lowest_ = 0;
    for (uint32_t warp = 0; warp < warps; ++warp) {
        priority_[warp] = static_cast<int64_t>(random() >> 2);
    }
}

uint64_t Scheduler::random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
}

int Scheduler::pick(const Warp* warps, uint32_t count, uint32_t current) {
    if (order_ == Order::Adversarial) {
        return pick_adversarial(warps, count, current);
    }
    const bool forward = order_ == Order::Forward;
    uint32_t warp = current;
    for (uint32_t tried = 0; tried < count; ++tried) {
        const uint32_t ready = warps[warp].ready;
        if (ready != 0) {
            const int lane = forward ? __builtin_ctz(ready) : 31 - __builtin_clz(ready);
            return static_cast<int>(warp * WARP_LANES) + lane;
        }
        if (forward) {
            warp = warp + 1 == count ? 0 : warp + 1;
        } else {
            warp = warp == 0 ? count - 1 : warp - 1;
        }
    }
    return -1;
}

int Scheduler::pick_adversarial(const Warp* warps, uint32_t count, uint32_t current) {
    if (random() % PICKS_PER_DEMOTION == 0) {
        lowest_ -= 1;
        priority_[current] = lowest_;
    }
    int chosen = -1;
    for (uint32_t warp = 0; warp < count; ++warp) {
        const bool higher = chosen < 0 || priority_[warp] > priority_[chosen];
        if (warps[warp].ready != 0 && higher) {
            chosen = static_cast<int>(warp);
        }
    }
    if (chosen < 0) {
        return -1;
    }
    uint32_t ready = warps[chosen].ready;
    for (uint64_t skip = random() % static_cast<uint64_t>(__builtin_popcount(ready)); skip != 0; --skip) {
        ready &= ready - 1;
    }
    return chosen * static_cast<int>(WARP_LANES) + __builtin_ctz(ready);
}

} // namespace emulator
