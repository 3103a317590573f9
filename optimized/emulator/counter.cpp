#include "counter.h"

#include <algorithm>

#include "block.h"

namespace emulator {

namespace {

constexpr uint32_t SECTOR_BYTES = 32;
constexpr uint32_t BANKS = 32;
constexpr uint32_t WORD_BYTES = 4;
// What one lane moves at once, at most.
constexpr uint32_t MOST_BYTES = 16;
// Requests of a warp at one place that may wait for lanes; more, and the oldest is counted without them.
constexpr size_t MOST_WAITING = 16384;

// How many lanes are served together.
uint32_t lanes_together(uint32_t bytes) {
    return bytes <= WORD_BYTES ? WARP_LANES : WARP_LANES * WORD_BYTES / std::min(bytes, MOST_BYTES);
}

// The words of a group of lanes, by bank.
class Banks {
  public:
    void add(uint32_t word) {
        const uint32_t bank = word % BANKS;
        for (uint32_t i = 0; i < counts_[bank]; ++i) {
            if (words_[bank][i] == word) {
                return;
            }
        }
        words_[bank][counts_[bank]] = word;
        counts_[bank] += 1;
        most_ = std::max(most_, counts_[bank]);
    }
    uint32_t most() const { return most_; }

  private:
    uint32_t most_ = 0;
    uint32_t counts_[BANKS] = {};
    uint32_t words_[BANKS][WARP_LANES + 1];
};

} // namespace

void Counter::begin(Block& block) {
    block_ = &block;
    last_ = nullptr;
}

void Counter::end() {
    for (auto& entry : sites_) {
        Site& site = entry.second;
        for (Waiting& waiting : site.warps) {
            for (size_t i = waiting.first; i < waiting.requests.size(); ++i) {
                count(site, waiting.requests[i]);
            }
            waiting.requests.clear();
        }
    }
    sites_.clear();
    last_site_ = nullptr;
}

Counts Counter::take() {
    const Counts counts = counts_;
    counts_ = Counts();
    return counts;
}

void Counter::read(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    access(thread, static_cast<const unsigned char*>(address), bytes, false, reinterpret_cast<uintptr_t>(at));
}

void Counter::write(const Thread& thread, const void* address, uint32_t bytes, const void* at) {
    access(thread, static_cast<const unsigned char*>(address), bytes, true, reinterpret_cast<uintptr_t>(at));
}

void Counter::access(const Thread& thread, const unsigned char* address, uint32_t bytes, bool writes, uintptr_t at) {
    const bool is_shared = block_->in_shared(address, bytes);
    if (!is_shared && allocation_of(address) == nullptr) {
        return; // neither memory: where a thread is, constants of the kernel
    }
    const Kind kind = is_shared ? Kind::Shared : writes ? Kind::GlobalWrite : Kind::GlobalRead;
    for (uint32_t done = 0; done < bytes; done += MOST_BYTES) {
        arrive(thread, address + done, std::min(bytes - done, MOST_BYTES), kind, at + done / MOST_BYTES);
    }
}

Counter::Site& Counter::site_of(Kind kind, uint32_t bytes, uintptr_t at) {
    const uintptr_t key = at * 4 + static_cast<uintptr_t>(kind);
    if (last_site_ != nullptr && last_key_ == key) {
        return *last_site_;
    }
    Site& site = sites_[key];
    if (site.warps.empty()) {
        site.kind = kind;
        site.bytes = bytes;
        site.turns.assign(block_->threads, 0);
        site.warps.assign(block_->warp_count, Waiting());
    }
    last_site_ = &site;
    last_key_ = key;
    return site;
}

void Counter::arrive(const Thread& thread, const unsigned char* address, uint32_t bytes, Kind kind, uintptr_t at) {
    Site& site = site_of(kind, bytes, at);
    const uint32_t warp = thread.number / WARP_LANES;
    const uint32_t lane = thread.number % WARP_LANES;
    Waiting& waiting = site.warps[warp];
    const uint32_t turn = site.turns[thread.number]++;
    if (turn < waiting.turn) {
        // The others were counted without this lane.
        Request alone = {1u << lane, {}};
        alone.addresses[lane] = address;
        count(site, alone);
        return;
    }
    const size_t place = waiting.first + (turn - waiting.turn);
    if (place >= waiting.requests.size()) {
        waiting.requests.resize(place + 1, Request{0, {}});
    }
    Request& request = waiting.requests[place];
    request.lanes |= 1u << lane;
    request.addresses[lane] = address;
    const bool is_full = waiting.requests.size() - waiting.first > MOST_WAITING;
    while (waiting.first < waiting.requests.size()) {
        const Request& oldest = waiting.requests[waiting.first];
        if (oldest.lanes != block_->warps[warp].all && !is_full) {
            break;
        }
        count(site, oldest);
        waiting.first += 1;
        waiting.turn += 1;
        if (is_full) {
            break;
        }
    }
    if (waiting.first == waiting.requests.size()) {
        waiting.requests.clear();
        waiting.first = 0;
    }
}

void Counter::count(const Site& site, const Request& request) {
    if (request.lanes == 0) {
        return;
    }
    switch (site.kind) {
    case Kind::GlobalRead: count_sectors(counts_.read, site, request); return;
    case Kind::GlobalWrite: count_sectors(counts_.written, site, request); return;
    case Kind::Shared:
        counts_.shared_requests += 1;
        count_wavefronts(request.addresses, request.lanes, site.bytes);
        return;
    }
}

void Counter::count_sectors(Traffic& traffic, const Site& site, const Request& request) {
    uintptr_t sectors[2 * WARP_LANES];
    size_t count = 0;
    for (uint32_t lanes = request.lanes; lanes != 0; lanes &= lanes - 1) {
        const auto address = reinterpret_cast<uintptr_t>(request.addresses[__builtin_ctz(lanes)]);
        traffic.bytes += site.bytes;
        for (uintptr_t sector = address / SECTOR_BYTES; sector <= (address + site.bytes - 1) / SECTOR_BYTES; ++sector) {
            if (count == 0 || sectors[count - 1] != sector) {
                sectors[count] = sector;
                count += 1;
            }
        }
    }
    if (!std::is_sorted(sectors, sectors + count)) {
        std::sort(sectors, sectors + count);
    }
    count = static_cast<size_t>(std::unique(sectors, sectors + count) - sectors);
    traffic.requests += 1;
    traffic.sectors += count;
    const bool writes = site.kind == Kind::GlobalWrite;
    for (size_t i = 0; i < count; ++i) {
        // A sector may begin before its allocation, so it is that of one of its lanes' bytes.
        const auto* const first = reinterpret_cast<const unsigned char*>(sectors[i] * SECTOR_BYTES);
        Allocation* const allocation = allocation_of(first);
        traffic.touched += allocation != nullptr && allocation->touch(first, writes) ? 1 : 0;
    }
}

void Counter::count_wavefronts(const unsigned char* const* addresses, uint32_t lanes, uint32_t bytes) {
    const uint32_t together = lanes_together(bytes);
    for (uint32_t first = 0; first < WARP_LANES; first += together) {
        Banks banks;
        for (uint32_t lane = first; lane < first + together; ++lane) {
            if ((lanes >> lane & 1) == 0) {
                continue;
            }
            const uint32_t offset = block_->shared_offset(addresses[lane]);
            for (uint32_t word = offset / WORD_BYTES; word <= (offset + bytes - 1) / WORD_BYTES; ++word) {
                banks.add(word);
            }
        }
        if (banks.most() != 0) {
            counts_.shared_wavefronts += banks.most();
            counts_.shared_conflicts += banks.most() - 1;
        }
    }
}

void Counter::load_matrix(const unsigned char* const* rows) {
    counts_.shared_requests += 1;
    count_wavefronts(rows, ~0u, MOST_BYTES);
}

void Counter::read_by_tensor_cores(uint64_t bytes) {
    counts_.shared_requests += 1;
    counts_.shared_wavefronts += bytes / (BANKS * WORD_BYTES);
}

Allocation* Counter::allocation_of(const unsigned char* address) {
    const auto place = reinterpret_cast<uintptr_t>(address);
    const auto holds = [place](const Allocation& it) { return it.begin() <= place && place < it.end(); };
    if (last_ != nullptr && holds(*last_)) {
        return last_;
    }
    const MemorySnapshot& all = block_->launch->memory;
    const auto after = std::upper_bound(all.begin(), all.end(), place,
                                        [](uintptr_t place, const auto& it) { return place < it->begin(); });
    if (after == all.begin() || !holds(**std::prev(after))) {
        return nullptr;
    }
    last_ = std::prev(after)->get();
    return last_;
}

} // namespace emulator
