// Devices, contexts and error texts.

#include <unistd.h>

#include <cstring>

#include "cuda.h"

namespace emulator {

namespace {

thread_local Context* current = nullptr;

Context* primary_context(Device* device) {
    static Context contexts[DEVICES] = {{device_at(0)}, {device_at(1)}, {device_at(2)}};
    return &contexts[device->ordinal];
}

// CUdevice_attribute to its value on an H200, where anything may ask for it.
int attribute(int number) {
    switch (number) {
    case 1: return static_cast<int>(MAX_THREADS);
    case 2: return 1024;       // block, x
    case 3: return 1024;       // block, y
    case 4: return 64;         // block, z
    case 5: return 2147483647; // grid, x
    case 6: return 65535;      // grid, y
    case 7: return 65535;      // grid, z
    case 8: return DEFAULT_SHARED_BYTES;
    case 9: return 64 << 10; // constant memory
    case 10: return static_cast<int>(WARP_LANES);
    case 12: return 65536;   // registers for each block
    case 13: return 1980000; // kHz
    case 14: return 512;     // texture alignment
    case 16: return MULTIPROCESSORS;
    case 19: return 1;        // maps host memory
    case 31: return 1;        // concurrent kernels
    case 36: return 3201000;  // kHz of the memory
    case 37: return 6144;     // bits of the memory bus
    case 38: return 50 << 20; // second-level cache
    case 39: return THREADS_PER_MULTIPROCESSOR;
    case 40: return 3; // copy engines
    case 41: return 1; // unified addressing
    case 75: return 9; // compute capability
    case 76: return 0;
    case 78: return 1; // stream priorities
    case 81: return SHARED_PER_MULTIPROCESSOR;
    case 82: return 65536;     // registers of each multiprocessor
    case 95: return 1;         // cooperative launches
    case 97: return 227 << 10; // shared memory for a block that asks for it
    case 106: return BLOCKS_PER_MULTIPROCESSOR;
    case 111: return SHARED_RESERVED_PER_BLOCK;
    case 115: return 1; // memory pools
    default: return 0;
    }
}

struct ErrorText {
    Result result;
    const char* name;
    const char* text;
};

constexpr ErrorText ERROR_TEXTS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "not an image of the emulated device"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the image is of the emulated device's other form"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "the emulated device found a fault"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported by the emulated device"},
    {STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "not permitted while the stream is capturing"},
};

const ErrorText* text_of(int result) {
    for (const ErrorText& text : ERROR_TEXTS) {
        if (text.result == result) {
            return &text;
        }
    }
    return nullptr;
}

} // namespace

Device* device_at(int ordinal) {
    // Never destroyed: memory may be freed while the process exits.
    static Device* const devices[DEVICES] = {new Device(0), new Device(1), new Device(2)};
    return ordinal >= 0 && ordinal < DEVICES ? devices[ordinal] : nullptr;
}

Context* current_context() {
    return current;
}

ThreadState& thread_state() {
    static thread_local ThreadState state;
    return state;
}

} // namespace emulator

using namespace emulator;

extern "C" {

Result cuInit(unsigned) {
    return SUCCESS;
}

Result cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}

Result cuGetErrorName(int result, const char** name) {
    const ErrorText* text = text_of(result);
    *name = text == nullptr ? nullptr : text->name;
    return text == nullptr ? INVALID_VALUE : SUCCESS;
}

Result cuGetErrorString(int result, const char** string) {
    const ErrorText* text = text_of(result);
    *string = text == nullptr ? nullptr : text->text;
    return text == nullptr ? INVALID_VALUE : SUCCESS;
}

Result cuDeviceGetCount(int* count) {
    *count = DEVICES;
    return SUCCESS;
}

Result cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return device_at(ordinal) == nullptr ? INVALID_DEVICE : SUCCESS;
}

Result cuDeviceGetName(char* name, int size, int device) {
    snprintf(name, static_cast<size_t>(size), "emulated device, %s form", device_at(device)->name());
    return SUCCESS;
}

Result cuDeviceGetUuid_v2(char uuid[16], int device) {
    memset(uuid, 0, 16);
    uuid[15] = static_cast<char>(device + 1);
    return SUCCESS;
}

Result cuDeviceGetAttribute(int* value, int number, int) {
    *value = attribute(number);
    return SUCCESS;
}

Result cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return SUCCESS;
}

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
    if (current == nullptr) {
        return INVALID_CONTEXT;
    }
    cuDeviceTotalMem_v2(total, current->device->ordinal);
    *free = *total - std::min(*total, current->device->memory.used());
    return SUCCESS;
}

Result cuDevicePrimaryCtxRetain(Context** context, int device) {
    Device* const wanted = device_at(device);
    if (wanted == nullptr) {
        return INVALID_DEVICE;
    }
    *context = primary_context(wanted);
    return SUCCESS;
}

Result cuDevicePrimaryCtxRelease_v2(int) {
    return SUCCESS;
}

Result cuCtxCreate_v4(Context** context, void*, unsigned, int device) {
    Device* const wanted = device_at(device);
    if (wanted == nullptr) {
        return INVALID_DEVICE;
    }
    current = new Context{wanted};
    *context = current;
    return SUCCESS;
}

Result cuCtxDestroy_v2(Context* context) {
    current = current == context ? nullptr : current;
    delete context;
    return SUCCESS;
}

Result cuCtxSetCurrent(Context* context) {
    current = context;
    return SUCCESS;
}

Result cuCtxGetCurrent(Context** context) {
    *context = current;
    return SUCCESS;
}

Result cuCtxSynchronize() {
    return SUCCESS;
}

Result cuCtxSetFlags(unsigned) {
    return SUCCESS;
}

Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = 0;
    return SUCCESS;
}

void emulator_set_schedule(uint32_t order, uint64_t seed) {
    thread_state().schedule = {static_cast<Order>(order), seed};
}

void emulator_set_tensor_cores(uint32_t generation) {
    thread_state().tensor_cores = static_cast<TensorCores>(generation);
}

const char* emulator_report() {
    return thread_state().report.c_str();
}

void emulator_clear_report() {
    thread_state().report.clear();
}

// What was counted since the last call; nothing is, unless it writes as many numbers as the host expects.
bool emulator_take_counts(uint64_t* numbers, uint32_t expected) {
    if (expected != COUNTS) {
        return false;
    }
    memcpy(numbers, &thread_state().counts, sizeof(Counts));
    thread_state().counts = Counts();
    return true;
}

void emulator_last_launch(uint64_t* blocks, uint64_t* switches, uint64_t* collectives) {
    const LaunchStatistics& last = thread_state().last_launch;
    *blocks = last.blocks;
    *switches = last.switches;
    *collectives = last.collectives;
}
}
