// Products of matrices whose rows are both contiguous over k: what every GEMM of the project shares.
//
// The order of summation is part of the contract, so that a row's result does not depend on the kernel that computes
// it, nor on the rows beside it: k is cut into chunks of K_CHUNK values, anchored at 0. Within a chunk, one chain of
// tensor-core steps of 16 values runs upward from zero. The chunks' sums are added in f32, upward.
#pragma once

#include "bf16x8.cuh"

constexpr int K_CHUNK = 512;
// Values of a row in shared memory at a time.
constexpr int K_TILE = 64;
constexpr int K_STEP = 16;
constexpr int ROW_VECTORS = K_TILE / VECTOR;
// Panels before which what they need beside their values is asked for.
constexpr int LOOK_AHEAD = 3;
static_assert(K_CHUNK % K_TILE == 0 && K_TILE % K_STEP == 0, "chunks are whole tiles, tiles are whole steps");

// A row of a matrix in global memory; its values from `length` on count as zero. `values` is 16-byte aligned.
struct Row {
    const bf16* values;
    int length;
};

// The first k values of a matrix's row; beyond its last row, zeros.
DEVICE Row row_of(const bf16* matrix, int row, int rows, int ld, int k) {
    return row < rows ? Row{matrix + int64(row) * ld, k} : Row{matrix, 0};
}

// K_TILE values of each of ROWS rows, in shared memory. The vectors of a row are permuted by its number, so that eight
// rows' vectors at the same k lie in different banks; so warpgroup_factor has it, too.
template <int ROWS>
struct alignas(1024) Panel {
    bf16 values[ROWS][K_TILE];

    __device__ __forceinline__ bf16* vector(int row, int index) {
        return &values[row][(index ^ row % ROW_VECTORS) * VECTOR];
    }
};

constexpr int PANEL_ROW_BYTES = K_TILE * sizeof(bf16);

// Begins copying values k to k+7 of a row.
template <int ROWS>
DEVICE void copy_vector(Panel<ROWS>& panel, int row, int index, const Row& source, int k) {
    const int left = source.length - k;
    const int bytes = 2 * min(max(left, 0), VECTOR);
    cp_async16(panel.vector(row, index), source.values + (bytes == 0 ? 0 : k), bytes);
}

// How rows of bf16 come to the tensor cores: COPIERS threads copy DEPTH panels of ROWS rows ahead, each the same vector of
// every (COPIERS / ROW_VECTORS)-th row, and panels are multiplied as they arrive.
template <int ROWS, int COPIERS, int DEPTH>
struct Panels {
    static constexpr int ROWS_AT_ONCE = COPIERS / ROW_VECTORS;
    static_assert(ROWS % ROWS_AT_ONCE == 0, "every thread copies as much");
    struct Shared {
        Panel<ROWS> panels[DEPTH];
    };

    Row rows[ROWS / ROWS_AT_ONCE];
    int first;
    int index;

    // For thread number `thread` of them; `row_at(i)` is the panels' row i.
    template <class RowAt>
    __device__ __forceinline__ Panels(int thread, RowAt row_at) : first(thread / ROW_VECTORS), index(thread % ROW_VECTORS) {
#pragma unroll
        for (int i = 0; i < ROWS / ROWS_AT_ONCE; ++i) {
            rows[i] = row_at(first + i * ROWS_AT_ONCE);
        }
    }

    // Begins copying values k to k + K_TILE - 1, panel number `number`.
    __device__ __forceinline__ void begin(Shared& shared, int number, int k) const {
        Panel<ROWS>& panel = shared.panels[number % DEPTH];
#pragma unroll
        for (int i = 0; i < ROWS / ROWS_AT_ONCE; ++i) {
            copy_vector(panel, first + i * ROWS_AT_ONCE, index, rows[i], k + index * VECTOR);
        }
    }

    // Asks for what the panel of values k on needs beside them. Called for each panel in order, LOOK_AHEAD − 1 panels before
    // the one that arrives next.
    __device__ __forceinline__ void look_ahead(int) const {}

    // Panel number `number`, of which the calling thread's copies have arrived; the other threads' after a barrier.
    __device__ __forceinline__ Panel<ROWS>& arrived(Shared& shared, int number) const {
        return shared.panels[number % DEPTH];
    }
};

// Fragments of COUNT times 16 rows from `row` on, of the tile's step `step`, as the first factor of mma_bf16.
template <int COUNT, int ROWS>
DEVICE void load_rows(uint32 (&fragments)[COUNT][4], Panel<ROWS>& panel, int row, int step) {
    const int lane = threadIdx.x % WARP_LANES;
    ldmatrix_x4(fragments, panel.vector(row + lane % 16, 2 * step + lane / 16), 16 * PANEL_ROW_BYTES);
}

// The same rows as columns, as the second factor.
template <int COUNT, int ROWS>
DEVICE void load_columns(uint32 (&fragments)[COUNT][4], Panel<ROWS>& panel, int row, int step) {
    const int lane = threadIdx.x % WARP_LANES;
    const int of_lane = lane / 16 * 8 + lane % 8;
    ldmatrix_x4(fragments, panel.vector(row + of_lane, 2 * step + lane / 8 % 2), 16 * PANEL_ROW_BYTES);
}

// chunk += the product of two panels' rows: all ROW_TILES·16 from `row` on, and all PAIRS·16 from `col` on.
template <int ROW_TILES, int PAIRS, int ROWS, int COLS>
DEVICE void multiply_panels(float (&chunk)[ROW_TILES][2 * PAIRS][4], Panel<ROWS>& left, int row, Panel<COLS>& right,
                            int col) {
#pragma unroll
    for (int step = 0; step < K_TILE / K_STEP; ++step) {
        uint32 a[ROW_TILES][4]; // 16·ROW_TILES × 16
        uint32 b[PAIRS][4];     // 16 × 16·PAIRS
        load_rows(a, left, row, step);
        load_columns(b, right, col, step);
        mma_bf16(chunk, a, b);
    }
}

// total += chunk, and the chunk's chain begins anew.
template <int ROWS, int COLS>
DEVICE void close_chunk(float (&total)[ROWS][COLS][4], float (&chunk)[ROWS][COLS][4]) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
#pragma unroll
            for (int element = 0; element < 4; ++element) {
                total[i][j][element] += chunk[i][j][element];
                chunk[i][j][element] = 0.f;
            }
        }
    }
}

// What precedes a loop over tiles of k: begin(i) of the first AHEAD tiles, and look_ahead(i) of the first LOOK_AHEAD. In the
// loop, begin(i + AHEAD) and look_ahead(i + LOOK_AHEAD) follow.
template <int AHEAD, class Begin, class LookAhead>
DEVICE void begin_tiles(Begin begin, LookAhead look_ahead) {
    for (int i = 0; i < AHEAD; ++i) {
        begin(i);
    }
#pragma unroll
    for (int i = 0; i < LOOK_AHEAD; ++i) {
        look_ahead(i);
    }
}

// A tile of a product that one block computes: ROWS rows of x times COLS rows of w, by DOWN × ACROSS warps, with DEPTH
// panels of each on their way. `Weights` says how w's come to the tensor cores (weights.cuh): panels that it makes itself take
// turns, TURNS of them.
template <class Weights, int ROWS, int COLS, int DOWN, int ACROSS, int DEPTH, int TURNS = 2>
struct Tile {
    static constexpr int BLOCK_THREADS = DOWN * ACROSS * WARP_LANES;
    static constexpr int WARP_ROWS = ROWS / DOWN;
    static constexpr int WARP_COLS = COLS / ACROSS;
    static_assert(WARP_ROWS % 16 == 0 && WARP_COLS % 16 == 0, "warps compute whole fragments");
    static_assert(DEPTH >= 3, "one stage is computed from, at least two are on their way");
    using XPanels = Panels<ROWS, BLOCK_THREADS, DEPTH>;
    using WPanels = typename Weights::template Panels<COLS, BLOCK_THREADS, DEPTH, TURNS>;
    struct Shared {
        typename XPanels::Shared x;
        typename WPanels::Shared w;
    };
    // A warp's part, as mma_bf16 leaves it.
    using Sums = float[WARP_ROWS / 16][WARP_COLS / 8][4];

    // The first row and column of the calling warp's part.
    static __device__ __forceinline__ int warp_row() {
        return threadIdx.x / WARP_LANES / ACROSS * WARP_ROWS;
    }
    static __device__ __forceinline__ int warp_col() {
        return threadIdx.x / WARP_LANES % ACROSS * WARP_COLS;
    }

    // Calls store(row, i, half) for each of the tile's first `rows` rows of which the calling thread has sums: those are
    // sums[i][·][2·half] and the one after it.
    template <class Store>
    static __device__ __forceinline__ void for_each_row(int rows, Store store) {
        const int first = warp_row() + threadIdx.x % WARP_LANES / 4;
#pragma unroll
        for (int i = 0; i < WARP_ROWS / 16; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first + 16 * i + 8 * half;
                if (row < rows) {
                    store(row, i, half);
                }
            }
        }
    }

    // total = x·wᵀ over k values, where `x_row(i)` and `w_row(j)` give the tile's rows. Every thread of the block calls
    // it.
    template <class XRow, class WRow>
    static __device__ __forceinline__ void multiply(Shared& shared, XRow x_row, WRow w_row, int k, Sums& total) {
        const XPanels x(threadIdx.x, x_row);
        WPanels w(threadIdx.x, w_row);
        const int tiles = (k + K_TILE - 1) / K_TILE;
        const auto begin = [&](int tile) {
            if (tile < tiles) {
                x.begin(shared.x, tile, tile * K_TILE);
                w.begin(shared.w, tile, tile * K_TILE);
            }
            cp_async_commit();
        };
        const auto look_ahead = [&](int tile) { w.look_ahead(tile * K_TILE); };
        begin_tiles<DEPTH - 1>(begin, look_ahead);
        Sums chunk = {};
        for (int tile = 0; tile < tiles; ++tile) {
            cp_async_wait<DEPTH - 2>();
            Panel<ROWS>& left = x.arrived(shared.x, tile);
            Panel<COLS>& right = w.arrived(shared.w, tile);
            __syncthreads(); // the tile has arrived for all, and all are done with the one before
            begin(tile + DEPTH - 1);
            look_ahead(tile + LOOK_AHEAD);
            multiply_panels<WARP_ROWS / 16, WARP_COLS / 16>(chunk, left, warp_row(), right, warp_col());
            if ((tile + 1) * K_TILE % K_CHUNK == 0) {
                close_chunk(total, chunk);
            }
        }
        close_chunk(total, chunk);
    }
};
