// The part of the CUDA driver's interface that the stand-in offers: its types, codes and handles.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../image.h"
#include "../launch.h"
#include "../memory.h"

namespace emulator {

// CUresult, as far as it is used.
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    STREAM_CAPTURE_UNSUPPORTED = 900,
};

using DevicePointer = unsigned long long;

constexpr int DEVICES = 3;
constexpr int MULTIPROCESSORS = 132;
constexpr int THREADS_PER_MULTIPROCESSOR = 2048;
constexpr int BLOCKS_PER_MULTIPROCESSOR = 32;
constexpr int SHARED_PER_MULTIPROCESSOR = 228 << 10;
constexpr int SHARED_RESERVED_PER_BLOCK = 1 << 10;
// Dynamic shared memory that a kernel may use without asking for more.
constexpr int DEFAULT_SHARED_BYTES = 48 << 10;

// Device 0 runs kernels in the fast form, device 1 in the checked form; device 2 counts what the images of the checked
// form access, and checks nothing.
struct Device {
    explicit Device(int ordinal) : ordinal(ordinal), memory(KEPT[ordinal]) {}

    Form form() const { return ordinal == 0 ? Form::Fast : Form::Checked; }
    bool counts() const { return ordinal == 2; }
    const char* name() const { return NAMES[ordinal]; }

    const int ordinal;
    Memory memory;

  private:
    static constexpr Kept KEPT[DEVICES] = {Kept::Nothing, Kept::Traces, Kept::Sectors};
    static constexpr const char* NAMES[DEVICES] = {"fast", "checked", "counting"};
};

struct Context {
    Device* device;
};

// Null if there is no such device.
Device* device_at(int ordinal);
// The calling thread's context, or null.
Context* current_context();

// The allocation that holds all of the range, on whichever device it is.
std::shared_ptr<Allocation> find_allocation(DevicePointer pointer, size_t bytes);

struct Module;

struct Function {
    Module* module;
    std::string name;
    Entry entry;
    const uint32_t* parameters; // {count, bytes of each}
    int max_shared_bytes = DEFAULT_SHARED_BYTES;
};

struct Module {
    std::unique_ptr<Image> image;
    Device* device;
    std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};

using Operation = std::function<Result()>;

// Operations of a stream, kept for replaying, and the memory that was allocated meanwhile: it is the graph's, whatever
// it frees, until the last copy of the graph is destroyed.
struct Graph {
    std::vector<Operation> operations;
    std::vector<std::shared_ptr<DevicePointer>> memory;
};

struct Stream {
    std::unique_ptr<Graph> capture; // what is being captured, if anything
};

struct Event {
    bool has_time;
    std::chrono::steady_clock::time_point time;
};

// Null and the two special handles are the default stream.
Stream& stream_of(void* handle);
// Does the operation now, or keeps it if the stream is being captured.
Result submit(void* stream, Operation operation);

// What the calling thread's launches and copies use and leave behind.
struct ThreadState {
    Schedule schedule;
    TensorCores tensor_cores = TensorCores::Hopper;
    std::string report;
    LaunchStatistics last_launch;
    Counts counts;
};

ThreadState& thread_state();

} // namespace emulator
