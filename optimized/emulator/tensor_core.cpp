#include "tensor_core.h"

#include <algorithm>
#include <cstring>

namespace emulator {

namespace {

// Of Hopper, of bf16: products of a step, and what it keeps of each.
constexpr int K = k_of(Factors::Bf16);
constexpr int FRACTION_BITS = 25;
constexpr int LANES = 8;

using Floats = float __attribute__((vector_size(LANES * 4)));
using Ints = int32_t __attribute__((vector_size(LANES * 4)));
using Doubles = double __attribute__((vector_size(LANES * 8)));
using Longs = int64_t __attribute__((vector_size(LANES * 8)));

template <class To, class From>
inline __attribute__((always_inline)) To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "a change of type only");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

template <class Vector, class Element>
inline __attribute__((always_inline)) Vector load(const Element* from) {
    Vector vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

constexpr int32_t EXPONENT_FIELD = 0x7f800000;
constexpr int32_t ONE = 0x3f800000;
constexpr int32_t EXPONENT_STEP = 1 << 23;
// Largest exponents within which eight columns are computed at once: below 2⁻¹⁰⁰ the scale would not be finite, from
// 2¹²⁵ products may not be. There every product that counts is exact in f32, and so is its scaled value.
constexpr int32_t SMALLEST = ONE - 100 * EXPONENT_STEP;
constexpr int32_t LARGEST = ONE + 124 * EXPONENT_STEP;
// Drops what a double has and a float has not.
constexpr int64_t FLOAT_BITS = ~((int64_t{1} << 29) - 1);

inline __attribute__((always_inline)) bool any(Ints condition) {
    uint64_t parts[sizeof condition / sizeof(uint64_t)];
    memcpy(parts, &condition, sizeof parts);
    return (parts[0] | parts[1] | parts[2] | parts[3]) != 0;
}

// The operands of a row: `a` and its powers [K], `b` and its powers [K][MAX_COLUMNS].
struct Operands {
    const float* a;
    const float* a_power;
    const float* b;
    const float* b_power;
    bool vanishing;
};

// Eight columns of one row. False if the exponents are out of the range above, and then d is untouched.
inline __attribute__((always_inline)) bool eight_columns(const Operands& row, int column, float* d) {
    const Floats old = load<Floats>(d);
    const Ints old_bits = same_bits<Ints>(old);
    const Ints old_field = old_bits & EXPONENT_FIELD;
    const Ints of_subnormal = (old_bits & INT32_MAX) == 0 ? Ints{} : Ints{} + EXPONENT_STEP;
    const Ints old_exponent = old_field == 0 ? of_subnormal : old_field;
    // Positive floats are ordered as integers.
    Ints largest = old_exponent;
    for (int k = 0; k < K; ++k) {
        const Floats power = load<Floats>(row.b_power + k * TensorCore::MAX_COLUMNS + column);
        const Ints exponent = same_bits<Ints>(row.a_power[k] * power);
        largest = exponent > largest ? exponent : largest;
    }
    // Where all is zero, any scale will do.
    largest = largest == 0 && !row.vanishing ? Ints{} + ONE : largest;
    if (any(largest < SMALLEST || largest > LARGEST)) {
        return false;
    }
    const Floats scale = same_bits<Floats>(ONE + FRACTION_BITS * EXPONENT_STEP - largest + ONE);
    Ints sum = {};
    for (int k = 0; k < K; ++k) {
        const Floats product = row.a[k] * load<Floats>(row.b + k * TensorCore::MAX_COLUMNS + column);
        sum += __builtin_convertvector(product * scale, Ints);
    }
    // Sixteen products stay below 2³¹; with d the sum may not.
    const Ints old_term = __builtin_convertvector(old * scale, Ints);
    const Doubles total = __builtin_convertvector(sum, Doubles) + __builtin_convertvector(old_term, Doubles);
    const Doubles truncated = same_bits<Doubles>(same_bits<Longs>(total) & FLOAT_BITS);
    const Floats unit = same_bits<Floats>(largest - FRACTION_BITS * EXPONENT_STEP);
    const Floats result = __builtin_convertvector(truncated * __builtin_convertvector(unit, Doubles), Floats);
    memcpy(d, &result, sizeof result);
    return true;
}

inline __attribute__((always_inline)) void whole_row(const Operands& row, float* d, int columns) {
    for (int column = 0; column < columns; column += LANES) {
        if (eight_columns(row, column, d + column)) {
            continue;
        }
        for (int i = column; i < column + LANES; ++i) {
            d[i] = instruction(TensorCores::Hopper, Factors::Bf16, row.a, row.b + i, TensorCore::MAX_COLUMNS, d[i]);
        }
    }
}

// What is known of a set of factors.
struct Range {
    Ints special = {};                  // other than zero if an infinity or a NaN is among them
    Ints zero = {};                     // other than zero if a zero is
    Ints smallest = Ints{} + INT32_MAX; // the exponent field of the smallest that is not zero
    Ints largest = {};                  // the exponent field of the largest
};

// Writes the powers of `count` factors.
inline __attribute__((always_inline)) void all_powers(const float* factors, float* powers, int count, Range& range) {
    for (int i = 0; i < count; i += LANES) {
        const Ints bits = load<Ints>(factors + i);
        const Ints field = bits & EXPONENT_FIELD;
        const Ints of_nonzero = field == 0 ? Ints{} + EXPONENT_STEP : field;
        const Ints is_zero = (bits & INT32_MAX) == 0;
        const Ints power = is_zero ? Ints{} : of_nonzero;
        memcpy(powers + i, &power, sizeof power);
        range.special |= field == EXPONENT_FIELD;
        range.zero |= is_zero;
        range.largest = field > range.largest ? field : range.largest;
        const Ints counts = is_zero ? Ints{} + INT32_MAX : of_nonzero;
        range.smallest = counts < range.smallest ? counts : range.smallest;
    }
}

// The two loops, compiled for one kind of processor.
struct Loops {
    void (*row)(const Operands&, float* d, int columns);
    void (*powers)(const float* factors, float* powers, int count, Range& range);
};

#define LOOPS(name, attribute)                                                                                         \
    attribute void name##_row(const Operands& row, float* d, int columns) {                                            \
        whole_row(row, d, columns);                                                                                    \
    }                                                                                                                  \
    attribute void name##_powers(const float* factors, float* powers, int count, Range& range) {                       \
        all_powers(factors, powers, count, range);                                                                     \
    }                                                                                                                  \
    constexpr Loops name = {name##_row, name##_powers};

LOOPS(plain, )

#if defined(__x86_64__)

LOOPS(avx2, __attribute__((target("avx2"))))
LOOPS(avx512, __attribute__((target("avx512f,avx512vl,avx512dq"))))

Loops best() {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        return avx512;
    }
    return __builtin_cpu_supports("avx2") ? avx2 : plain;
}

#else

Loops best() {
    return plain;
}

#endif

const Loops LOOPS_HERE = best();

int32_t least(Ints values) {
    int32_t result = INT32_MAX;
    for (int lane = 0; lane < LANES; ++lane) {
        result = std::min(result, static_cast<int32_t>(values[lane]));
    }
    return result;
}

// The exponent field, in place, up to which a factor times a zero, whose exponent is −126, stays below SMALLEST.
constexpr int32_t LARGEST_BESIDE_ZERO = ONE + 26 * EXPONENT_STEP;

} // namespace

float TensorCore::of_f16(uint32_t bits) {
    const uint32_t sign = (bits & 0x8000) << 16;
    const uint32_t magnitude = bits & 0x7fff;
    float value;
    if (magnitude >= 0x7c00) {
        set(value, sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
        return value;
    }
    set(value, sign | magnitude << 13);
    return value * 0x1p112f; // the bias of an f32 less that of an f16
}

float TensorCore::of_e4m3(uint32_t bits) {
    const uint32_t sign = (bits & 0x80) << 24;
    const uint32_t magnitude = bits & 0x7f;
    float value;
    set(value, sign | (magnitude == 0x7f ? 0x7fffffff : magnitude << 20));
    return magnitude == 0x7f ? value : value * 0x1p120f;
}

void TensorCore::prepare(int rows, int columns) {
    columns_ = columns;
    special_ = generation_ != TensorCores::Hopper || factors_ != Factors::Bf16;
    if (special_) {
        return;
    }
    Range of_a;
    Range of_b;
    LOOPS_HERE.powers(a_, a_power_, rows * K, of_a);
    for (int k = 0; k < K; ++k) {
        LOOPS_HERE.powers(b_[k], b_power_[k], columns, of_b);
    }
    const Ints beside_zero = (of_a.largest > LARGEST_BESIDE_ZERO) | (of_b.largest > LARGEST_BESIDE_ZERO);
    special_ = any(of_a.special | of_b.special) || (any(of_a.zero | of_b.zero) && any(beside_zero));
    // The exponent of a product, biased twice, against that of the smallest normal float.
    const int64_t smallest = int64_t{least(of_a.smallest)} + least(of_b.smallest);
    vanishing_ = smallest < int64_t{ONE} + EXPONENT_STEP;
}

void TensorCore::accumulate(int row, float* d) const {
    const float* const a = a_ + row * k_of(factors_);
    if (!special_) {
        LOOPS_HERE.row({a, a_power_ + row * K, b_[0], b_power_[0], vanishing_}, d, columns_);
        return;
    }
    for (int column = 0; column < columns_; ++column) {
        d[column] = instruction(generation_, factors_, a, b_[0] + column, MAX_COLUMNS, d[column]);
    }
}

} // namespace emulator
