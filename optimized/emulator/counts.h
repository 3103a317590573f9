// What launches asked of a GPU's memories.
#pragma once

#include <cstdint>

namespace emulator {

// What the lanes of warps read, or what they wrote.
struct Traffic {
    uint64_t requests = 0; // instructions of a warp
    uint64_t bytes = 0;    // of all lanes
    uint64_t sectors = 0;  // of 32 bytes, each once for every request
    uint64_t touched = 0;  // sectors, each once for every launch

    void add(const Traffic& other) {
        requests += other.requests;
        bytes += other.bytes;
        sectors += other.sectors;
        touched += other.touched;
    }
};

// Whole numbers in an order that the host knows, too.
struct Counts {
    uint64_t launches = 0;
    uint64_t blocks = 0;
    uint64_t threads = 0;      // of all blocks
    uint64_t shared_bytes = 0; // that all blocks were given
    Traffic read;
    Traffic written;
    uint64_t shared_requests = 0; // of warps: loads, stores, copies into it, rows of ldmatrix
    uint64_t shared_wavefronts = 0;
    uint64_t shared_conflicts = 0; // wavefronts beyond the fewest that requests of their sizes take
    uint64_t multiply_adds = 0;    // of the tensor cores
    uint64_t fills = 0;            // memory set to a byte, by no kernel
    uint64_t filled_bytes = 0;

    void add(const Counts& other) {
        launches += other.launches;
        blocks += other.blocks;
        threads += other.threads;
        shared_bytes += other.shared_bytes;
        read.add(other.read);
        written.add(other.written);
        shared_requests += other.shared_requests;
        shared_wavefronts += other.shared_wavefronts;
        shared_conflicts += other.shared_conflicts;
        multiply_adds += other.multiply_adds;
        fills += other.fills;
        filled_bytes += other.filled_bytes;
    }
};

constexpr uint32_t COUNTS = sizeof(Counts) / sizeof(uint64_t);

} // namespace emulator
