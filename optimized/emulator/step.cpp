#include "step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace emulator {

namespace {

constexpr uint32_t NOT_A_NUMBER = 0x7fffffff;
constexpr int FLOAT_FRACTION_BITS = 23;
constexpr int LEAST_OF_FLOAT = -126;
// Fraction bits of a factor: f16's, of which no other type has more.
constexpr int FACTOR_BITS = 10;

// How a step adds: products and sum are aligned to the largest of their exponents, where a product's exponent is the sum of
// its factors', a subnormal number's is the smallest normal one's, and a zero's is −126; each is truncated toward zero at
// `fraction_bits` of that exponent; they are added exactly; the sum is truncated to `result_bits`, and to an f32. (MMA-Sim,
// arXiv 2511.10909, which found this to be bit-exact on the devices.)
struct Rule {
    int products;
    int fraction_bits;
    int result_bits;
    int least_exponent; // of a factor that is a normal number
};


float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// A finite value as significand·2^(exponent − fraction_bits), where the significand is whole.
struct Scaled {
    int64_t significand;
    int exponent;
};

Scaled split(float value, int fraction_bits, int least_exponent) {
    if (value == 0) {
        return {0, LEAST_OF_FLOAT};
    }
    const int exponent = std::max(std::ilogb(value), least_exponent);
    return {static_cast<int64_t>(std::ldexp(static_cast<double>(value), fraction_bits - exponent)), exponent};
}

// significand·2^shift, toward zero.
int64_t shifted(int64_t significand, int shift) {
    if (significand == 0 || shift <= -63) {
        return 0; // a zero may stand at any exponent
    }
    return shift >= 0 ? significand << shift : significand / (int64_t{1} << -shift);
}

// The value with so many fraction bits, toward zero; what an f32 has no room for is infinite, and no zero is negative.
float truncated(double value, int fraction_bits) {
    if (value == 0) {
        return 0;
    }
    const int last = std::max(std::ilogb(value), LEAST_OF_FLOAT) - fraction_bits;
    return static_cast<float>(std::ldexp(std::trunc(std::ldexp(value, -last)), last) + 0.0);
}

// d + Σ a[order(i)]·b[order(i)] over a step.
template <class Order>
float step(const Rule& rule, const float* a, const float* b, int stride, float d, Order order) {
    double plain = d;
    const Scaled old = split(std::isfinite(d) ? d : 0, FLOAT_FRACTION_BITS, LEAST_OF_FLOAT);
    Scaled terms[MAX_K];
    int largest = old.exponent;
    for (int i = 0; i < rule.products; ++i) {
        const float x = a[order(i)];
        const float y = b[order(i) * stride];
        plain += static_cast<double>(x) * y;
        if (!std::isfinite(x) || !std::isfinite(y)) {
            continue;
        }
        const Scaled left = split(x, FACTOR_BITS, rule.least_exponent);
        const Scaled right = split(y, FACTOR_BITS, rule.least_exponent);
        terms[i] = {left.significand * right.significand, left.exponent + right.exponent};
        largest = std::max(largest, terms[i].exponent);
    }
    if (!std::isfinite(plain)) {
        return std::isnan(plain) ? float_of(NOT_A_NUMBER) : static_cast<float>(plain);
    }
    int64_t sum = shifted(old.significand, rule.fraction_bits - FLOAT_FRACTION_BITS - (largest - old.exponent));
    for (int i = 0; i < rule.products; ++i) {
        sum += shifted(terms[i].significand, rule.fraction_bits - 2 * FACTOR_BITS - (largest - terms[i].exponent));
    }
    return truncated(std::ldexp(static_cast<double>(sum), largest - rule.fraction_bits), rule.result_bits);
}

// Steps one after the other, each over the values of k behind those of the one before.
float in_steps(const Rule& rule, int k, const float* a, const float* b, int stride, float d) {
    for (int first = 0; first < k; first += rule.products) {
        d = step(rule, a + first, b + first * stride, stride, d, [](int i) { return i; });
    }
    return d;
}

// Hopper has E4M3 in wgmma only. Of mma, ptxas (13.0, for sm_90a) makes two instructions of f16, from zero: of the first two of
// each four values, then of the others; d is added to that in f32.
float hopper_e4m3(const float* a, const float* b, int stride, float d) {
    constexpr Rule RULE = {16, 25, 23, -14};
    float sum = step(RULE, a, b, stride, 0, [](int i) { return i / 2 * 4 + i % 2; });
    sum = step(RULE, a, b, stride, sum, [](int i) { return i / 2 * 4 + i % 2 + 2; });
    sum += d;
    return std::isnan(sum) ? float_of(NOT_A_NUMBER) : sum;
}

} // namespace

float instruction(TensorCores generation, Factors factors, const float* a, const float* b, int stride, float d) {
    const bool is_hopper = generation == TensorCores::Hopper;
    if (factors == Factors::E4m3) {
        return is_hopper ? hopper_e4m3(a, b, stride, d) : in_steps({16, 13, 13, -6}, 32, a, b, stride, d);
    }
    const int least = factors == Factors::Bf16 ? LEAST_OF_FLOAT : -14;
    return in_steps(is_hopper ? Rule{16, 25, 23, least} : Rule{8, 24, 23, least}, 16, a, b, stride, d);
}

} // namespace emulator
