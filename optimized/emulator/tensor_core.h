// What a tensor core makes of the registers of a warp: quickly of ordinary values of bf16 on Hopper, by the definition
// (step.h) of all others.
#pragma once

#include <cstdint>
#include <cstring>

#include "interface.h"
#include "step.h"

namespace emulator {

// One instruction for all tiles of a warp: d[i][j] += Σₖ a[i][k]·b[k][j].
class TensorCore {
  public:
    static constexpr int MAX_ROWS = 16 * MAX_MULTIPLY_TILES;
    static constexpr int MAX_COLUMNS = 8 * MAX_MULTIPLY_TILES;

    // To be called before the others.
    void begin(TensorCores generation, Factors factors) {
        generation_ = generation;
        factors_ = factors;
    }
    // The values of register number `number` of row `row` of a: two of 16 bits, or four of eight.
    void set_a(uint32_t row, uint32_t number, uint32_t bits) {
        const uint32_t k = static_cast<uint32_t>(k_of(factors_));
        unpack(bits, [&](uint32_t i, uint32_t values) { return &a_[row * k + number * values + i]; });
    }
    // Those of column `column` of b.
    void set_b(uint32_t number, uint32_t column, uint32_t bits) {
        unpack(bits, [&](uint32_t i, uint32_t values) { return &b_[number * values + i][column]; });
    }
    // To be called once both are set.
    void prepare(int rows, int columns);
    // Adds row `row` of the product to `d`.
    void accumulate(int row, float* d) const;

  private:
    template <class Place>
    void unpack(uint32_t bits, Place place) const {
        if (factors_ == Factors::Bf16) {
            set(*place(0, 2), bits << 16);
            set(*place(1, 2), bits & 0xffff0000u);
            return;
        }
        const uint32_t values = factors_ == Factors::F16 ? 2 : 4;
        for (uint32_t i = 0; i < values; ++i) {
            *place(i, values) = factors_ == Factors::F16 ? of_f16(bits >> 16 * i) : of_e4m3(bits >> 8 * i);
        }
    }
    static void set(float& value, uint32_t bits) { memcpy(&value, &bits, sizeof value); }
    static float of_f16(uint32_t bits);
    static float of_e4m3(uint32_t bits);

    TensorCores generation_ = TensorCores::Hopper;
    Factors factors_ = Factors::Bf16;
    int columns_ = 0;
    // To be computed by the definition.
    bool special_ = false;
    // A product other than zero may vanish in f32.
    bool vanishing_ = false;
    // Each factor, and the power of two that its exponent stands for. Rows of a follow one another, whatever k is.
    alignas(64) float a_[MAX_ROWS * MAX_K];
    alignas(64) float a_power_[MAX_ROWS * MAX_K];
    alignas(64) float b_[MAX_K][MAX_COLUMNS];
    alignas(64) float b_power_[MAX_K][MAX_COLUMNS];
};

} // namespace emulator
