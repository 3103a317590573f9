// Products of warpgroups, which the tensor cores compute while the warps go on.
//
// The emulated ones do so at the last moment: when a warp waits for a product, they read its factors and add its rows of the
// sums. Until then the sums are NaN to the warp.
#pragma once

#include <cstdint>
#include <vector>

#include "interface.h"
#include "tensor_core.h"

namespace emulator {

constexpr uint32_t WARPGROUP_WARPS = 4;
// Rows of the first factor that are a warp's.
constexpr int WARP_ROWS = 16;
// Values of k, and their bytes.
constexpr int WARPGROUP_K = 16;
constexpr uint32_t WARPGROUP_K_BYTES = 2 * WARPGROUP_K;

struct WarpgroupFactors {
    const unsigned char* a;
    const unsigned char* b;
};

// A warp's part of one.
struct WarpProduct {
    WarpgroupFactors factors;
    uint32_t group;
    const void* at;
};

// A warp's products.
struct WarpProducts {
    std::vector<WarpProduct> pending; // that it has not waited for, oldest first
    uint32_t group;                   // that the next one joins
    size_t count;                     // of all that it has begun
    float* sums[WARP_LANES];          // where each lane has those that were handed over; null if none were
    int cols;                         // their tiles of 8 columns
    float values[WARP_ROWS][TensorCore::MAX_COLUMNS];

    void begin() {
        pending.clear();
        group = 0;
        count = 0;
        sums[0] = nullptr;
    }
    bool in_flight() const { return !pending.empty(); }
};

} // namespace emulator
