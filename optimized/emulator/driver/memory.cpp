// Device memory, pinned host memory, and copies.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda.h"

namespace emulator {

namespace {

unsigned char* bytes_at(DevicePointer pointer) {
    return reinterpret_cast<unsigned char*>(pointer);
}

size_t offset_in(const Allocation& allocation, DevicePointer pointer) {
    return static_cast<size_t>(pointer - allocation.begin());
}

constexpr Trace WRITTEN_BY_HOST = {HOST, NOBODY, 0, 0};
constexpr Trace UNWRITTEN = {NOBODY, NOBODY, 0, 0};

void mark_written(Allocation& allocation, DevicePointer pointer, size_t bytes) {
    if (allocation.has_traces()) {
        allocation.mark(offset_in(allocation, pointer), bytes, WRITTEN_BY_HOST);
    }
}

// The first byte of a range that nothing has written, or `bytes`. In the fast form, all counts as written.
size_t first_unwritten(const Allocation& allocation, DevicePointer pointer, size_t bytes) {
    const size_t offset = offset_in(allocation, pointer);
    size_t byte = allocation.has_traces() ? 0 : bytes;
    while (byte < bytes && allocation.is_written(offset + byte)) {
        byte += 1;
    }
    return byte;
}

Result set(DevicePointer target, unsigned char value, size_t bytes) {
    const auto allocation = find_allocation(target, bytes);
    if (allocation == nullptr) {
        return INVALID_VALUE;
    }
    memset(bytes_at(target), value, bytes);
    mark_written(*allocation, target, bytes);
    thread_state().counts.fills += 1;
    thread_state().counts.filled_bytes += bytes;
    return SUCCESS;
}

Result to_device(DevicePointer target, const void* source, size_t bytes) {
    const auto allocation = find_allocation(target, bytes);
    if (allocation == nullptr) {
        return INVALID_VALUE;
    }
    memcpy(bytes_at(target), source, bytes);
    mark_written(*allocation, target, bytes);
    return SUCCESS;
}

// In the checked form, a kernel that left part of its output unwritten is found here.
Result to_host(void* target, DevicePointer source, size_t bytes) {
    const auto allocation = find_allocation(source, bytes);
    if (allocation == nullptr) {
        return INVALID_VALUE;
    }
    memcpy(target, bytes_at(source), bytes);
    const size_t unwritten = first_unwritten(*allocation, source, bytes);
    if (unwritten == bytes) {
        return SUCCESS;
    }
    Report report;
    report.add(Fault::UninitialisedGlobal, "the copy to the host",
               format("byte %zu of %zu, which nothing has written", unwritten, bytes));
    thread_state().report = report.text();
    return LAUNCH_FAILED;
}

Result between(DevicePointer target, DevicePointer source, size_t bytes) {
    const auto from = find_allocation(source, bytes);
    const auto to = find_allocation(target, bytes);
    if (from == nullptr || to == nullptr) {
        return INVALID_VALUE;
    }
    memmove(bytes_at(target), bytes_at(source), bytes);
    mark_written(*to, target, bytes);
    const size_t offset = offset_in(*to, target);
    for (size_t i = first_unwritten(*from, source, bytes); i < bytes && to->has_traces(); ++i) {
        const bool is_written = from->is_written(offset_in(*from, source) + i);
        to->mark(offset + i, 1, is_written ? WRITTEN_BY_HOST : UNWRITTEN);
    }
    return SUCCESS;
}

} // namespace

std::shared_ptr<Allocation> find_allocation(DevicePointer pointer, size_t bytes) {
    for (int ordinal = 0; ordinal < DEVICES; ++ordinal) {
        auto allocation = device_at(ordinal)->memory.find(bytes_at(pointer), bytes);
        if (allocation != nullptr) {
            return allocation;
        }
    }
    return nullptr;
}

} // namespace emulator

using namespace emulator;

extern "C" {

Result cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
    Context* const context = current_context();
    if (context == nullptr) {
        return INVALID_CONTEXT;
    }
    if (bytes == 0) {
        return INVALID_VALUE;
    }
    *pointer = reinterpret_cast<DevicePointer>(context->device->memory.allocate(bytes));
    return *pointer == 0 ? OUT_OF_MEMORY : SUCCESS;
}

Result cuMemFree_v2(DevicePointer pointer) {
    for (int ordinal = 0; ordinal < DEVICES; ++ordinal) {
        if (device_at(ordinal)->memory.free(bytes_at(pointer))) {
            return SUCCESS;
        }
    }
    return INVALID_VALUE;
}

Result cuMemAllocAsync(DevicePointer* pointer, size_t bytes, void* stream) {
    const Result result = cuMemAlloc_v2(pointer, bytes);
    Graph* const capture = stream_of(stream).capture.get();
    if (result == SUCCESS && capture != nullptr) {
        capture->memory.emplace_back(new DevicePointer(*pointer), [](DevicePointer* own) {
            cuMemFree_v2(*own);
            delete own;
        });
    }
    return result;
}

Result cuMemFreeAsync(DevicePointer pointer, void* stream) {
    const Graph* const capture = stream_of(stream).capture.get();
    if (capture == nullptr) {
        return cuMemFree_v2(pointer);
    }
    const auto is_it = [pointer](const auto& own) { return *own == pointer; };
    const bool is_own = std::any_of(capture->memory.begin(), capture->memory.end(), is_it);
    return is_own ? SUCCESS : STREAM_CAPTURE_UNSUPPORTED;
}

Result cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    *pointer = std::malloc(bytes);
    return *pointer == nullptr ? OUT_OF_MEMORY : SUCCESS;
}

Result cuMemFreeHost(void* pointer) {
    std::free(pointer);
    return SUCCESS;
}

Result cuMemsetD8_v2(DevicePointer target, unsigned char value, size_t bytes) {
    return set(target, value, bytes);
}

Result cuMemsetD8Async(DevicePointer target, unsigned char value, size_t bytes, void* stream) {
    return submit(stream, [=] { return set(target, value, bytes); });
}

Result cuMemcpyHtoD_v2(DevicePointer target, const void* source, size_t bytes) {
    return to_device(target, source, bytes);
}

Result cuMemcpyHtoDAsync_v2(DevicePointer target, const void* source, size_t bytes, void* stream) {
    return submit(stream, [=] { return to_device(target, source, bytes); });
}

Result cuMemcpyDtoH_v2(void* target, DevicePointer source, size_t bytes) {
    return to_host(target, source, bytes);
}

Result cuMemcpyDtoHAsync_v2(void* target, DevicePointer source, size_t bytes, void* stream) {
    return submit(stream, [=] { return to_host(target, source, bytes); });
}

Result cuMemcpyDtoD_v2(DevicePointer target, DevicePointer source, size_t bytes) {
    return between(target, source, bytes);
}

Result cuMemcpyDtoDAsync_v2(DevicePointer target, DevicePointer source, size_t bytes, void* stream) {
    return submit(stream, [=] { return between(target, source, bytes); });
}

Result cuMemcpyPeerAsync(DevicePointer target, Context*, DevicePointer source, Context*, size_t bytes, void* stream) {
    return submit(stream, [=] { return between(target, source, bytes); });
}
}
