// One instruction of the tensor core: c += a·bᵀ for a, b [16, k] and c [16, 16] in f32, by one warp. A row of a and of b has 32
// bytes: k is 16 of bf16 (FACTORS = 0) and f16 (1), 32 of E4M3 (2).

#include "one_product.cuh"

extern "C" __global__ void multiply(const uint16* a, const uint16* b, float* c) {
    SHARED_MEMORY(Factors, shared);
    multiply_once(shared, a, b, c, [](float (&d)[1][2][4], const uint32 (&rows)[1][4], const uint32 (&columns)[1][4]) {
#if FACTORS == 0
        mma_bf16(d, rows, columns);
#elif FACTORS == 1
        mma_f16(d, rows, columns);
#else
        mma_e4m3(d, rows, columns);
#endif
    });
}
