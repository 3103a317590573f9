#include "tensor_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace emulator {

namespace {

constexpr int FRACTION_BITS = 25;
constexpr int LANES = 8;

using Floats = float __attribute__((vector_size(LANES * 4)));
using Ints = int32_t __attribute__((vector_size(LANES * 4)));
using Doubles = double __attribute__((vector_size(LANES * 8)));
using Longs = int64_t __attribute__((vector_size(LANES * 8)));

uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

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
    const Ints old_exponent = same_bits<Ints>(old) & EXPONENT_FIELD;
    // Positive floats are ordered as integers.
    Ints largest = old_exponent;
    for (int k = 0; k < TensorCore::K; ++k) {
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
    for (int k = 0; k < TensorCore::K; ++k) {
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

// A finite value as significand·2^exponent, where the significand is an integer below 2^bits.
struct Scaled {
    int64_t significand;
    int exponent;
};

// Exponents as the hardware counts them: those of subnormals are the smallest normal's.
Scaled split(float value, int fraction_bits) {
    const uint32_t bits = bits_of(value);
    const int field = static_cast<int>(bits >> 23 & 0xff);
    const int64_t fraction = (bits & 0x7fffff) >> (23 - fraction_bits);
    const int64_t magnitude = field == 0 ? fraction : fraction | int64_t{1} << fraction_bits;
    return {bits >> 31 ? -magnitude : magnitude, std::max(field, 1) - 127};
}

// significand·2^shift, toward zero.
int64_t shifted(int64_t significand, int shift) {
    if (significand == 0 || shift <= -63) {
        return 0; // a zero may stand at any exponent
    }
    return shift >= 0 ? significand << shift : significand / (int64_t{1} << -shift);
}

float truncated_to_float(double value) {
    constexpr double SMALLEST_NORMAL = 0x1p-126;
    constexpr double SMALLEST_STEP = 0x1p-149;
    if (std::fabs(value) < SMALLEST_NORMAL) {
        return static_cast<float>(std::trunc(value / SMALLEST_STEP) * SMALLEST_STEP + 0.0);
    }
    return static_cast<float>(same_bits<double>(same_bits<int64_t>(value) & FLOAT_BITS));
}

// One element by the definition, for any values.
float one_element(const float* a, const float* b, float d) {
    constexpr int FACTOR_BITS = 7;
    constexpr int FLOAT_FRACTION_BITS = 23;
    constexpr int NONE = -1000;
    double plain = d;
    Scaled terms[TensorCore::K];
    const Scaled old = split(d, FLOAT_FRACTION_BITS);
    int largest = old.significand == 0 ? NONE : old.exponent;
    for (int k = 0; k < TensorCore::K; ++k) {
        const float factor = b[k * TensorCore::MAX_COLUMNS];
        plain += static_cast<double>(a[k]) * factor;
        const Scaled x = split(a[k], FACTOR_BITS);
        const Scaled y = split(factor, FACTOR_BITS);
        terms[k] = {x.significand * y.significand, x.exponent + y.exponent};
        largest = terms[k].significand == 0 ? largest : std::max(largest, terms[k].exponent);
    }
    if (!std::isfinite(plain)) {
        return std::isnan(plain) ? float_of(0x7fffffff) : static_cast<float>(plain);
    }
    int64_t sum = shifted(old.significand, FRACTION_BITS - FLOAT_FRACTION_BITS - (largest - old.exponent));
    for (const Scaled& term : terms) {
        sum += shifted(term.significand, FRACTION_BITS - 2 * FACTOR_BITS - (largest - term.exponent));
    }
    return truncated_to_float(std::ldexp(static_cast<double>(sum), largest - FRACTION_BITS));
}

inline __attribute__((always_inline)) void whole_row(const Operands& row, float* d, int columns) {
    for (int column = 0; column < columns; column += LANES) {
        if (eight_columns(row, column, d + column)) {
            continue;
        }
        for (int i = column; i < column + LANES; ++i) {
            d[i] = one_element(row.a, row.b + i, d[i]);
        }
    }
}

// What is known of a set of factors.
struct Range {
    Ints special = {};                  // other than zero if an infinity or a NaN is among them
    Ints smallest = Ints{} + INT32_MAX; // the exponent field of the smallest that is not zero
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

} // namespace

void TensorCore::prepare(int rows, int columns) {
    columns_ = columns;
    Range of_a;
    Range of_b;
    LOOPS_HERE.powers(a_[0], a_power_[0], rows * K, of_a);
    for (int k = 0; k < K; ++k) {
        LOOPS_HERE.powers(b_[k], b_power_[k], columns, of_b);
    }
    special_ = any(of_a.special | of_b.special);
    // The exponent of a product, biased twice, against that of the smallest normal float.
    const int64_t smallest = int64_t{least(of_a.smallest)} + least(of_b.smallest);
    vanishing_ = smallest < int64_t{ONE} + EXPONENT_STEP;
}

void TensorCore::accumulate(int row, float* d) const {
    if (!special_) {
        LOOPS_HERE.row({a_[row], a_power_[row], b_[0], b_power_[0], vanishing_}, d, columns_);
        return;
    }
    for (int column = 0; column < columns_; ++column) {
        d[column] = one_element(a_[row], b_[0] + column, d[column]);
    }
}

} // namespace emulator
