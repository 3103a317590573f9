// What the operators that divide by a root mean square share.
#pragma once

#include "bf16x8.cuh"

// sum + Σ v², one after another.
DEVICE float add_squares(float sum, const Floats8& v) {
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
        sum = fmaf(v.values[j], v.values[j], sum);
    }
    return sum;
}

// y = (one + w)·(x·r) for a row of d values, rounded once; its padding up to ld becomes 0. Every thread of the block calls it.
DEVICE void scale_row(const bf16* x, const bf16* w, bf16* y, int d, int ld, float r, float one) {
    for (int i = threadIdx.x; i < ld / VECTOR; i += blockDim.x) {
        const Floats8 values = unpack(vectors(x)[i]);
        const Floats8 weights = unpack(vectors(w)[i]);
        Floats8 scaled;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            const bool inside = i * VECTOR + j < d;
            scaled.values[j] = inside ? (one + weights.values[j]) * (values.values[j] * r) : 0.f;
        }
        vectors(y)[i] = pack(scaled);
    }
}
