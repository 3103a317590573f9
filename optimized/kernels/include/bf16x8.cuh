// Eight bf16 values at a time: what a thread moves to and from global memory at once.
#pragma once

#include "simt.cuh"

constexpr int VECTOR = 8;

struct Floats8 {
    float values[VECTOR];
};

DEVICE Floats8 unpack(uint4 packed) {
    return {low_float(packed.x), high_float(packed.x), low_float(packed.y), high_float(packed.y),
            low_float(packed.z), high_float(packed.z), low_float(packed.w), high_float(packed.w)};
}

// Rounds to the nearest, ties to even.
DEVICE uint4 pack(const Floats8& unpacked) {
    const float(&v)[VECTOR] = unpacked.values;
    return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
}

// The vectors of a row that begins at `row`, which must be 16-byte aligned.
DEVICE const uint4* vectors(const bf16* row) {
    return reinterpret_cast<const uint4*>(row);
}

DEVICE uint4* vectors(bf16* row) {
    return reinterpret_cast<uint4*>(row);
}
