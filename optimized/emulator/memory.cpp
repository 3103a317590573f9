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

Allocation::Allocation(size_t bytes, Form form) : bytes_(bytes) {
    const size_t padded = (bytes + MARGIN + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    data_ = static_cast<unsigned char*>(std::aligned_alloc(ALIGNMENT, padded));
    if (data_ == nullptr) {
        return;
    }
    memset(data_, UNWRITTEN, bytes);
    if (form == Form::Checked) {
        cells_ = Cells(bytes);
        // Most of it is never touched, because most lines keep one trace.
        constexpr int FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* const traces = mmap(nullptr, trace_bytes(), PROT_READ | PROT_WRITE, FLAGS, -1, 0);
        traces_ = traces == MAP_FAILED ? nullptr : static_cast<Trace*>(traces);
    }
}

Allocation::~Allocation() {
    std::free(data_);
    if (traces_ != nullptr) {
        munmap(traces_, trace_bytes());
    }
}

unsigned char* Memory::allocate(size_t bytes) {
    auto allocation = std::make_shared<Allocation>(bytes, form_);
    const bool lacks_traces = form_ == Form::Checked && !allocation->has_traces();
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
    if (form_ == Form::Checked) {
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
