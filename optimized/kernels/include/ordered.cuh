// Floats as unsigned numbers of the same order, so that what is largest does not depend on who compares first.
#pragma once

#include "simt.cuh"

// An order of unsigned numbers that is the order of floats, NaN last. No float becomes 0.
DEVICE uint32 ordered(float x) {
    const uint32 bits = __float_as_uint(x);
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    const uint32 sorted = bits >> 31 != 0 ? ~bits : bits | 0x80000000;
    return is_nan ? 0xffffffff : sorted;
}

// The float that became `sorted`.
DEVICE float unordered(uint32 sorted) {
    return __uint_as_float(sorted >> 31 != 0 ? sorted & 0x7fffffff : ~sorted);
}
