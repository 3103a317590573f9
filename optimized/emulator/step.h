// The arithmetic of tensor cores, by its definition: one element of a product, for any values.
#pragma once

#include "interface.h"

namespace emulator {

// A generation of tensor cores. Ada's are Ampere's, too, which has none of E4M3.
enum class TensorCores : uint32_t { Hopper, Ada };

// Values of k of an instruction, of 16 bits and of eight.
constexpr int MAX_K = 32;

constexpr int k_of(Factors factors) {
    return factors == Factors::E4m3 ? 32 : 16;
}

// d + Σₖ a[k]·b[k] over the k of an instruction, where `b` has its values `stride` apart.
float instruction(TensorCores generation, Factors factors, const float* a, const float* b, int stride, float d);

} // namespace emulator
