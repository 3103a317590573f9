// One instruction of the tensor core: c += a·bᵀ for a, b [16, k] and c [16, 16] in f32, by one warp. A row of a and of b has 32
// bytes: k is 16 of bf16 (FACTORS = 0) and f16 (1), 32 of E4M3 (2).

#include "simt.cuh"

struct Factors {
    uint16 a[16][16];
    uint16 b[16][16];
};

extern "C" __global__ void multiply(const uint16* a, const uint16* b, float* c) {
    SHARED_MEMORY(Factors, shared);
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
        const int row = lane / 4 + i % 4 / 2 * 8;
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        d[0][i / 4][i % 4] = c[16 * row + column];
    }
#if FACTORS == 0
    mma_bf16(d, rows, columns);
#elif FACTORS == 1
    mma_f16(d, rows, columns);
#else
    mma_e4m3(d, rows, columns);
#endif
    for (int i = 0; i < 8; ++i) {
        const int row = lane / 4 + i % 4 / 2 * 8;
        const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        c[16 * row + column] = d[0][i / 4][i % 4];
    }
}
