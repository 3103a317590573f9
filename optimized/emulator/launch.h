// One launch of a kernel: a grid of blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "counts.h"
#include "image.h"
#include "interface.h"
#include "memory.h"
#include "report.h"
#include "schedule.h"
#include "step.h"

namespace emulator {

struct LaunchShape {
    Dim3 grid;
    Dim3 block;
    uint32_t shared_bytes;

    uint64_t blocks() const { return uint64_t{grid.x} * grid.y * grid.z; }
    uint32_t threads() const { return block.x * block.y * block.z; }
};

// What a launch did.
struct LaunchStatistics {
    uint64_t blocks = 0;
    uint64_t switches = 0;
    uint64_t collectives = 0;
};

struct Launch {
    Launch(const Image& image, Entry entry, void** arguments, const LaunchShape& shape, const Schedule& schedule,
           TensorCores tensor_cores, bool counts)
        : image(image), entry(entry), arguments(arguments), shape(shape), schedule(schedule),
          tensor_cores(tensor_cores), counts(counts) {}

    // Runs every block; what went wrong is in `report`.
    void run();

    bool checked() const { return image.form() == Form::Checked && !counts; }

    const Image& image;
    const Entry entry;
    void** const arguments;
    const LaunchShape shape;
    const Schedule schedule;
    const TensorCores tensor_cores;
    const bool counts; // in the counting form
    Report report;
    // Checked and counting form only.
    MemorySnapshot memory;
    // Checked form only.
    Stamps stamps;
    // Counting form only.
    Counts counted;
    LaunchStatistics statistics;

  private:
    friend class Helpers;
    // Takes blocks until none is left. `calls_helpers` for the thread that launches.
    void take_blocks(bool calls_helpers);

    std::atomic<uint64_t> next_{0};
    std::atomic<bool> abandoned_{false};
    std::atomic<uint64_t> blocks_done_{0};
    std::atomic<uint64_t> switches_{0};
    std::atomic<uint64_t> collectives_{0};
    std::mutex counted_mutex_;
};

} // namespace emulator
