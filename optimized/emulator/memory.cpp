#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace emulator {

namespace {

// What the CUDA driver aligns to.
constexpr size_t ALIGNMENT = 256;
// Between allocations, so that what overruns one does not reach the next.
constexpr size_t MARGIN = 256;
// What memory holds before it is written: NaN in every float format.
constexpr int UNWRITTEN = 0xff;

} // namespace

Stamps Stamps::take(uint64_t count) {
    static std::atomic<uint64_t> next{FIRST_STAMP};
    const uint64_t first = next.fetch_add(count);
    if (first + count >= ATOMIC) {
        return {};
    }
    return {static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
}

Allocation::Allocation(size_t bytes, Kept kept) : bytes_(bytes) {
    const size_t padded = (bytes + MARGIN + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    // Zeros that nobody writes take no memory of the host, so that counted weights may be of any size.
    block_ = kept == Kept::Sectors ? std::calloc(1, padded + ALIGNMENT) : std::aligned_alloc(ALIGNMENT, padded);
    if (block_ == nullptr) {
        return;
    }
    const auto address = reinterpret_cast<uintptr_t>(block_);
    data_ = static_cast<unsigned char*>(block_) + (ALIGNMENT - address % ALIGNMENT) % ALIGNMENT;
    if (kept == Kept::Sectors) {
        touched_ = std::make_unique<std::atomic<uint64_t>[]>(2 * touched_words());
        return;
    }
    memset(data_, UNWRITTEN, bytes);
    if (kept == Kept::Traces) {
        cells_ = Cells(bytes);
        // Most of it is never touched, because most lines keep one trace.
        constexpr int FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* const traces = mmap(nullptr, trace_bytes(), PROT_READ | PROT_WRITE, FLAGS, -1, 0);
        traces_ = traces == MAP_FAILED ? nullptr : static_cast<Trace*>(traces);
    }
}

Allocation::~Allocation() {
    std::free(block_);
    if (traces_ != nullptr) {
        munmap(traces_, trace_bytes());
    }
}

bool Allocation::touch(const void* address, bool writes) {
    is_touched_.store(true, std::memory_order_relaxed);
    const size_t sector = reinterpret_cast<uintptr_t>(address) / SECTOR_BYTES - begin() / SECTOR_BYTES;
    std::atomic<uint64_t>& word = touched_[(writes ? touched_words() : 0) + sector / BITS];
    const uint64_t bit = uint64_t{1} << sector % BITS;
    return (word.load(std::memory_order_relaxed) & bit) == 0 && (word.fetch_or(bit) & bit) == 0;
}

void Allocation::forget_touched() {
    if (!is_touched_.exchange(false)) {
        return;
    }
    for (size_t i = 0; i < 2 * touched_words(); ++i) {
        touched_[i].store(0, std::memory_order_relaxed);
    }
}

unsigned char* Memory::allocate(size_t bytes) {
    auto allocation = std::make_shared<Allocation>(bytes, kept_of_all_);
    const bool lacks_traces = kept_of_all_ == Kept::Traces && !allocation->has_traces();
    if (allocation->data() == nullptr || lacks_traces) {
        return nullptr;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    allocations_.emplace(allocation->begin(), allocation);
    used_ += bytes;
    return allocation->data();
}

bool Memory::free(const void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = allocations_.find(reinterpret_cast<uintptr_t>(data));
    if (found == allocations_.end()) {
        return false;
    }
    const std::shared_ptr<Allocation> allocation = found->second;
    allocations_.erase(found);
    allocation->freed = true;
    used_ -= allocation->bytes();
    if (kept_of_all_ == Kept::Traces) {
        kept_.push_back(allocation);
        kept_bytes_ += allocation->bytes();
        while (kept_bytes_ > MAX_KEPT_BYTES) {
            kept_bytes_ -= kept_.front()->bytes();
            kept_.erase(kept_.begin());
        }
    }
    return true;
}

std::shared_ptr<Allocation> Memory::find(const void* data, size_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) {
        return nullptr;
    }
    const std::shared_ptr<Allocation>& allocation = std::prev(after)->second;
    const size_t offset = address - allocation->begin();
    const bool inside = offset <= allocation->bytes() && bytes <= allocation->bytes() - offset;
    return inside ? allocation : nullptr;
}

MemorySnapshot Memory::snapshot() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    MemorySnapshot all = kept_;
    for (const auto& entry : allocations_) {
        all.push_back(entry.second);
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->begin() < b->begin(); });
    return all;
}

size_t Memory::used() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return used_;
}

} // namespace emulator
