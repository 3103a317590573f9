// The arithmetic of Hopper's tensor cores on bf16.
#pragma once

#include <cstdint>
#include <cstring>

#include "interface.h"

namespace emulator {

// One k16 step: d[i][j] += Σₖ a[i][k]·b[k][j] over 16 k.
//
// The 16 products and d are aligned to the largest of their exponents, where a product's exponent is the sum of its
// factors' and a zero has none; each is truncated toward zero at 25 fractional bits of that exponent; they are added
// exactly; the sum is truncated to f32. (MMA-Sim, arXiv 2511.10909, which found this to be bit-exact on the device.)
class TensorCore {
  public:
    static constexpr int K = 16;
    static constexpr int MAX_ROWS = 16 * MAX_MULTIPLY_TILES;
    static constexpr int MAX_COLUMNS = 8 * MAX_MULTIPLY_TILES;

    // a[row][k] and a[row][k + 1], each in half of `pair`.
    void set_a(uint32_t row, uint32_t k, uint32_t pair) {
        set(a_[row][k], pair << 16);
        set(a_[row][k + 1], pair & 0xffff0000u);
    }
    // b[k][column] and b[k + 1][column].
    void set_b(uint32_t k, uint32_t column, uint32_t pair) {
        set(b_[k][column], pair << 16);
        set(b_[k + 1][column], pair & 0xffff0000u);
    }
    // To be called once both are set.
    void prepare(int rows, int columns);
    // Adds row `row` of the product to `d`.
    void accumulate(int row, float* d) const;

  private:
    static void set(float& value, uint32_t bits) { memcpy(&value, &bits, sizeof value); }

    int columns_ = 0;
    // An infinity or a NaN is among the factors.
    bool special_ = false;
    // A product other than zero may vanish in f32.
    bool vanishing_ = false;
    // Each factor, and the power of two that its exponent stands for.
    alignas(64) float a_[MAX_ROWS][K];
    alignas(64) float a_power_[MAX_ROWS][K];
    alignas(64) float b_[K][MAX_COLUMNS];
    alignas(64) float b_power_[K][MAX_COLUMNS];
};

} // namespace emulator
