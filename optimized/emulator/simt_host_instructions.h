// The instructions of simt.cuh that have names there only; `simt_host.h` includes it.
#pragma once

DEVICE void cp_async16(void* shared, const void* global, int bytes) {
    emulator_copy_async(shared, global, bytes);
}

DEVICE void cp_async_commit() {
    emulator_copy_commit();
}

template <int GROUPS>
DEVICE void cp_async_wait() {
    emulator_copy_wait(GROUPS);
}

template <int COUNT>
DEVICE void ldmatrix_x4(uint32 (&fragments)[COUNT][4], const void* row, int step) {
    emulator::LoadMatrixOperand operand = {row, fragments[0], COUNT, step};
    emulator_collective(emulator::Collective::LoadMatrix, FULL_WARP, &operand);
}

template <int COUNT>
DEVICE void ldmatrix_x4_trans(uint32 (&fragments)[COUNT][4], const void* row, int step) {
    emulator::LoadMatrixOperand operand = {row, fragments[0], COUNT, step};
    emulator_collective(emulator::Collective::LoadMatrixTransposed, FULL_WARP, &operand);
}

#define EMULATED_MULTIPLY(name, factors)                                                                               \
    template <int ROWS, int PAIRS>                                                                                     \
    DEVICE void name(float (&d)[ROWS][2 * PAIRS][4], const uint32 (&a)[ROWS][4], const uint32 (&b)[PAIRS][4]) {        \
        constexpr int COLS = 2 * PAIRS;                                                                                \
        static_assert(ROWS <= emulator::MAX_MULTIPLY_TILES && COLS <= emulator::MAX_MULTIPLY_TILES,                    \
                      "more than is emulated");                                                                        \
        emulator::MultiplyOperand operand = {d[0][0], a[0], b[0], ROWS, COLS, emulator::Factors::factors};             \
        emulator_collective(emulator::Collective::Multiply, FULL_WARP, &operand);                                      \
    }
EMULATED_MULTIPLY(mma_bf16, Bf16)
EMULATED_MULTIPLY(mma_f16, F16)
EMULATED_MULTIPLY(mma_e4m3, E4m3)

DEVICE void fence_for_warpgroups() {
    emulator_fence_for_warpgroups();
}

constexpr int WARPGROUP_TILES = 16;

DEVICE void warpgroup_begin(float (&d)[1][WARPGROUP_TILES][4]) {
    emulator::WarpgroupOperand operand = {d[0][0], WARPGROUP_TILES, nullptr, nullptr, 0};
    emulator_collective(emulator::Collective::WarpgroupBegin, FULL_WARP, &operand);
}

DEVICE void warpgroup_multiply(float (&d)[1][WARPGROUP_TILES][4], const void* a, const void* b) {
    emulator::WarpgroupOperand operand = {d[0][0], WARPGROUP_TILES, a, b, 0};
    emulator_collective(emulator::Collective::WarpgroupMultiply, FULL_WARP, &operand);
}

DEVICE void warpgroup_commit() {
    emulator_collective(emulator::Collective::WarpgroupCommit, FULL_WARP, nullptr);
}

template <int GROUPS>
DEVICE void warpgroup_wait() {
    emulator::WarpgroupOperand operand = {nullptr, 0, nullptr, nullptr, GROUPS};
    emulator_collective(emulator::Collective::WarpgroupWait, FULL_WARP, &operand);
}

DEVICE void warpgroup_finish(float (&d)[1][WARPGROUP_TILES][4]) {
    emulator::WarpgroupOperand operand = {d[0][0], WARPGROUP_TILES, nullptr, nullptr, 0};
    emulator_collective(emulator::Collective::WarpgroupWait, FULL_WARP, &operand);
}
