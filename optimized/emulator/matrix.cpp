// ldmatrix and mma: how the fragments of a matrix lie in the registers of a warp's lanes.

#include <cstring>

#include "block.h"

namespace emulator {

namespace {

constexpr uint32_t ROW_BYTES = 16;

// The two 16-bit values at column `column` of a row, as a register holds them.
uint32_t pair(const unsigned char* row, uint32_t column) {
    uint32_t value;
    memcpy(&value, row + 2 * column, sizeof value);
    return value;
}

uint16_t element(const unsigned char* row, uint32_t column) {
    uint16_t value;
    memcpy(&value, row + 2 * column, sizeof value);
    return value;
}

} // namespace

// Lanes 8m to 8m+7 hold the addresses of the rows of matrix m; lane l receives row l/4, columns 2(l%4) and one more, of
// each.
void load_matrix(Block& block, Thread& thread, Warp& warp, bool transposed) {
    const auto& first = *static_cast<const LoadMatrixOperand*>(warp.arrivals[0].operand);
    const uint32_t warp_number = thread.number / WARP_LANES;
    for (int i = 0; i < first.count; ++i) {
        const unsigned char* rows[WARP_LANES];
        for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
            const Arrival& arrival = warp.arrivals[lane];
            const auto& operand = *static_cast<const LoadMatrixOperand*>(arrival.operand);
            const uint32_t number = warp_number * WARP_LANES + lane;
            rows[lane] = static_cast<const unsigned char*>(operand.row) + ptrdiff_t{i} * operand.step;
            if (reinterpret_cast<uintptr_t>(rows[lane]) % ROW_BYTES != 0) {
                block.stop(thread, Fault::Misaligned, arrival.at,
                           block.name(number) + " gives ldmatrix a row that is not 16-byte aligned");
            }
            if (!block.in_shared(rows[lane], ROW_BYTES)) {
                block.stop(thread, Fault::OutOfBounds, arrival.at,
                           block.name(number) + " gives ldmatrix a row that is not in the block's shared memory");
            }
            if (block.launch->checked()) {
                block.shared_checker.read(block.region.thread(number), block.shared_offset(rows[lane]), ROW_BYTES,
                                          arrival.at);
            }
        }
        if (block.launch->counts) {
            block.counter.load_matrix(rows);
        }
        for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
            uint32_t* const fragments = static_cast<LoadMatrixOperand*>(warp.arrivals[lane].operand)->fragments + 4 * i;
            for (uint32_t matrix = 0; matrix < 4; ++matrix) {
                const unsigned char* const* of_matrix = rows + 8 * matrix;
                const uint32_t row = lane / 4;
                const uint32_t column = lane % 4 * 2;
                if (transposed) {
                    const uint32_t high = element(of_matrix[column + 1], row);
                    fragments[matrix] = high << 16 | element(of_matrix[column], row);
                } else {
                    fragments[matrix] = pair(of_matrix[row], column);
                }
            }
        }
    }
}

// a (16×16): register h + 2c of lane l holds row l/4 + 8h, columns 2(l%4) + 8c and one more.
// b (16×8):  register c of lane l holds rows 2(l%4) + 8c and one more, column l/4.
// d (16×8):  register 2h + i of lane l holds row l/4 + 8h, column 2(l%4) + i.
// Of E4M3 k is twice as long, and each of its pairs is four.
void multiply(Warp& warp, TensorCore& core, TensorCores generation) {
    const auto& shape = *static_cast<const MultiplyOperand*>(warp.arrivals[0].operand);
    core.begin(generation, shape.factors);
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        const auto& operand = *static_cast<const MultiplyOperand*>(warp.arrivals[lane].operand);
        const uint32_t group = lane / 4;
        const uint32_t register_of_k = lane % 4;
        for (int tile = 0; tile < shape.rows; ++tile) {
            for (uint32_t i = 0; i < 4; ++i) {
                core.set_a(16 * tile + group + i % 2 * 8, register_of_k + i / 2 * 4, operand.a[4 * tile + i]);
            }
        }
        for (int tile = 0; tile < shape.cols; ++tile) {
            for (uint32_t i = 0; i < 2; ++i) {
                core.set_b(register_of_k + i * 4, 8 * tile + group, operand.b[2 * tile + i]);
            }
        }
    }
    core.prepare(16 * shape.rows, 8 * shape.cols);
    for (int row = 0; row < 16 * shape.rows; ++row) {
        float row_of_d[TensorCore::MAX_COLUMNS];
        float* owners[4]; // the registers of the four lanes that hold this row
        for (int i = 0; i < 4; ++i) {
            const auto& operand = *static_cast<const MultiplyOperand*>(warp.arrivals[row % 8 * 4 + i].operand);
            owners[i] = operand.d + row / 16 * shape.cols * 4 + row % 16 / 8 * 2;
            for (int tile = 0; tile < shape.cols; ++tile) {
                memcpy(row_of_d + 8 * tile + 2 * i, owners[i] + 4 * tile, 2 * sizeof(float));
            }
        }
        core.accumulate(row, row_of_d);
        for (int i = 0; i < 4; ++i) {
            for (int tile = 0; tile < shape.cols; ++tile) {
                memcpy(owners[i] + 4 * tile, row_of_d + 8 * tile + 2 * i, 2 * sizeof(float));
            }
        }
    }
}

} // namespace emulator
