// One product of the tensor core, by one warp: what an instruction makes of factors, to look at it alone.
#pragma once

#include "simt.cuh"

// Rows of 32 bytes, whatever the type of their values.
struct Factors {
    uint16 a[16][16];
    uint16 b[16][16];
};

// c += a·bᵀ for a and b [16, 32 bytes] and c [16, 16] in f32, where mma(d, rows, columns) is the instruction.
template <class Mma>
DEVICE void multiply_once(Factors& shared, const uint16* a, const uint16* b, float* c, Mma mma) {
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) {
        shared.a[i / 16][i % 16] = a[i];
        shared.b[i / 16][i % 16] = b[i];
    }
    __syncwarp();
    uint32 rows[1][4];
    uint32 columns[1][4];
    ldmatrix_x4(rows, &shared.a[lane % 16][lane / 16 * 8], 0);
    ldmatrix_x4(columns, &shared.b[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8], 0);
    float d[1][2][4];
    for (int i = 0; i < 8; ++i) {
        d[0][i / 4][i % 4] = c[16 * (lane / 4 + i % 4 / 2 * 8) + i / 4 * 8 + lane % 4 * 2 + i % 2];
    }
    mma(d, rows, columns);
    for (int i = 0; i < 8; ++i) {
        c[16 * (lane / 4 + i % 4 / 2 * 8) + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[0][i / 4][i % 4];
    }
}
