#include "launch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "block.h"

namespace emulator {

namespace {

// A launch that has run for so long with blocks left is worth waking other cores for.
constexpr auto PATIENCE = std::chrono::microseconds(100);

// Blocks are kept from launch to launch, for their stacks.
class SpareBlocks {
  public:
    std::unique_ptr<Block> take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (spare_.empty()) {
            return std::make_unique<Block>();
        }
        std::unique_ptr<Block> block = std::move(spare_.back());
        spare_.pop_back();
        return block;
    }

    void give_back(std::unique_ptr<Block> block) {
        const std::lock_guard<std::mutex> lock(mutex_);
        spare_.push_back(std::move(block));
    }

    // Never destroyed: launches may run while the process exits.
    static SpareBlocks& all() {
        static SpareBlocks& blocks = *new SpareBlocks();
        return blocks;
    }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Block>> spare_;
};

} // namespace

// Threads on the other cores, which help one launch at a time.
class Helpers {
  public:
    // Never destroyed: its threads wait for work until the process ends.
    static Helpers& all() {
        static Helpers& helpers = *new Helpers();
        return helpers;
    }

    // False if they are busy or there are none.
    bool begin(Launch& launch) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (launch_ != nullptr || count_ == 0) {
            return false;
        }
        launch_ = &launch;
        begun_ += 1;
        working_ = count_;
        work_.notify_all();
        return true;
    }

    void finish() {
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return working_ == 0; });
        launch_ = nullptr;
    }

  private:
    Helpers() {
        const unsigned cores = std::thread::hardware_concurrency();
        count_ = cores > 1 ? cores - 1 : 0;
        for (unsigned i = 0; i < count_; ++i) {
            std::thread([this] { help(); }).detach();
        }
    }

    [[noreturn]] void help() {
        uint64_t seen = 0;
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            work_.wait(lock, [&] { return begun_ != seen; });
            seen = begun_;
            Launch& launch = *launch_;
            lock.unlock();
            launch.take_blocks(false);
            lock.lock();
            working_ -= 1;
            if (working_ == 0) {
                done_.notify_all();
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable done_;
    Launch* launch_ = nullptr;
    uint64_t begun_ = 0;
    unsigned count_ = 0;
    unsigned working_ = 0;
};

void Launch::run() {
    take_blocks(!checked());
    statistics.blocks = blocks_done_;
    statistics.switches = switches_;
    statistics.collectives = collectives_;
    if (counts) {
        counted.launches = 1;
        counted.blocks = blocks_done_;
        counted.threads = blocks_done_ * shape.threads();
        counted.shared_bytes = blocks_done_ * shape.shared_bytes;
    }
}

void Launch::take_blocks(bool calls_helpers) {
    std::unique_ptr<Block> block = SpareBlocks::all().take();
    const uint64_t blocks = shape.blocks();
    const uint64_t switches = block->switches;
    const uint64_t collectives = block->collectives;
    const auto begin = std::chrono::steady_clock::now();
    bool has_helpers = false;
    bool may_call = calls_helpers;
    uint64_t done = 0;
    for (uint64_t position = next_++; position < blocks && !abandoned_; position = next_++) {
        if (!block->run(*this, schedule.block_at(position, blocks))) {
            abandoned_ = true;
        }
        done += 1;
        if (may_call && next_ < blocks && std::chrono::steady_clock::now() - begin > PATIENCE) {
            may_call = false;
            has_helpers = Helpers::all().begin(*this);
        }
    }
    blocks_done_ += done;
    switches_ += block->switches - switches;
    collectives_ += block->collectives - collectives;
    if (counts) {
        const std::lock_guard<std::mutex> lock(counted_mutex_);
        counted.add(block->counter.take());
    }
    SpareBlocks::all().give_back(std::move(block));
    if (has_helpers) {
        Helpers::all().finish();
    }
}

} // namespace emulator
