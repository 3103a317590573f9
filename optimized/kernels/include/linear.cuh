// What `linear` and `linear_bias` share: x·wᵀ, a tile a block or for few rows, and how y is stored.
#pragma once

#include "warpgroup.cuh"

static_assert(OUT == 16 || OUT == 32, "y is bf16 or f32");

template <int BITS>
struct Output;

template <>
struct Output<16> {
    using Value = bf16;

    static __device__ __forceinline__ void store(bf16* y, float value) {
        *y = to_bf16(value);
    }
    static __device__ __forceinline__ void store_pair(bf16* y, float first, float second) {
        *reinterpret_cast<uint32*>(y) = pack_bf16(first, second);
    }
};

template <>
struct Output<32> {
    using Value = float;

    static __device__ __forceinline__ void store(float* y, float value) {
        *y = value;
    }
    static __device__ __forceinline__ void store_pair(float* y, float first, float second) {
        *reinterpret_cast<float2*>(y) = {first, second};
    }
};

using Out = Output<OUT>;

// x [n, k], w [m, k] and y [n, m]; rows of x and y are so many values apart.
struct Operands {
    const bf16* x;
    Weight w;
    Out::Value* y;
    int n;
    int m;
    int k;
    int ldx;
    int ldy;
};

// Stores a tile whose first element is (first_row, first_col) of y; finished(sum, col) is what becomes of a sum in column
// `col`.
template <class Finished>
DEVICE void store_tile(const Operands& p, const Block::Sums& sums, int first_row, int first_col, Finished finished) {
    const int lane = threadIdx.x % WARP_LANES;
    Block::for_each_row(p.n - first_row, [&](int row, int i, int half) {
#pragma unroll
        for (int j = 0; j < Block::WARP_COLS / 8; ++j) {
            const int col = first_col + Block::warp_col() + 8 * j + lane % 4 * 2;
            const float first = col < p.m ? finished(sums[i][j][2 * half], col) : 0.f;
            const float second = col + 1 < p.m ? finished(sums[i][j][2 * half + 1], col + 1) : 0.f;
            if (col < p.ldy) {
                Out::store_pair(p.y + int64(first_row + row) * p.ldy + col, first, second);
            }
        }
    });
}

// The calling block's tile of y.
template <class Finished>
DEVICE void multiply_tile(const Operands& p, Finished finished) {
    SHARED_MEMORY(Block::Shared, shared);
    const int first_row = blockIdx.x * TILE_ROWS;
    const int first_col = blockIdx.y * TILE_COLS;
    const auto x_row = [=](int i) { return row_of(p.x, first_row + i, p.n, p.ldx, p.k); };
    const auto w_row = [=](int j) { return row_of(p.w, first_col + j, p.m, p.k); };
    Block::Sums sums = {}; // WARP_ROWS × WARP_COLS
    Block::multiply(shared, x_row, w_row, p.k, sums);
    store_tile(p, sums, first_row, first_col, finished);
}

constexpr int FEW_ROWS = 16;
constexpr int FEW_COLS = 16;

using FewW = Weights::Panels<FEW_COLS, WARP_LANES, FEW_STAGES>;

// What a warp of multiply_few_rows copies ahead of w: FEW_STAGES panels, which no other warp touches.
struct Ring {
    FewW::Shared w;
};

// And of x: as many panels, of the rows that there are, and behind them the zeros that stand for others.
struct FewX {
    static constexpr int ZEROS = 64;

    bf16* ring;
    const bf16* rows;
    int n;
    int k;
    int ld;

    // Values of a warp's ring.
    static __device__ __forceinline__ int values(int n) {
        return FEW_STAGES * n * K_TILE + ZEROS;
    }

    __device__ __forceinline__ FewX(bf16* own, const Operands& p) : ring(own), rows(p.x), n(p.n), k(p.k), ld(p.ldx) {
        reinterpret_cast<uint32*>(own + FEW_STAGES * n * K_TILE)[threadIdx.x % WARP_LANES] = 0;
    }

    // Where vector `index` of a row is in panel number `number`.
    __device__ __forceinline__ bf16* vector(int number, int row, int index) const {
        return ring + (number % FEW_STAGES * n + row) * K_TILE + (index ^ row % ROW_VECTORS) * VECTOR;
    }

    // Begins copying values first to first + K_TILE − 1, panel number `number`.
    __device__ __forceinline__ void begin(int number, int first) const {
        for (int i = threadIdx.x % WARP_LANES; i < n * ROW_VECTORS; i += WARP_LANES) {
            const int row = i / ROW_VECTORS;
            const int from = first + i % ROW_VECTORS * VECTOR;
            const int bytes = 2 * min(max(k - from, 0), VECTOR);
            cp_async16(vector(number, row, i % ROW_VECTORS), rows + int64(row) * ld + (bytes == 0 ? 0 : from), bytes);
        }
    }

    // The rows as columns of the second factor, of the panel's step `step`.
    __device__ __forceinline__ void load(uint32 (&fragments)[1][4], int number, int step) const {
        const int lane = threadIdx.x % WARP_LANES;
        const int row = lane / 16 * 8 + lane % 8;
        ldmatrix_x4(fragments, row < n ? vector(number, row, 2 * step + lane / 8 % 2) : ring + FEW_STAGES * n * K_TILE, 0);
    }
};

// A chunk's sums, [row of x][row of w], padded so that a warp's lanes store to different banks.
struct Sums {
    float values[FEW_ROWS][FEW_COLS + 4];
};

// A warp's tiles of k, counted through its chunks. Only the last chunk of all may have fewer than CHUNK_TILES.
struct WarpTiles {
    static constexpr int CHUNK_TILES = K_CHUNK / K_TILE;

    int warp;
    int warps;
    int tiles;

    __device__ __forceinline__ int tile(int i) const {
        return (warp + i / CHUNK_TILES * warps) * CHUNK_TILES + i % CHUNK_TILES;
    }
    __device__ __forceinline__ bool has(int i) const {
        return tile(i) < tiles;
    }
    __device__ __forceinline__ int chunk(int i) const {
        return tile(i) / CHUNK_TILES;
    }
    __device__ __forceinline__ bool ends_chunk(int i) const {
        return i % CHUNK_TILES == CHUNK_TILES - 1 || tile(i) == tiles - 1;
    }
};

// Stores the sums of a chunk, 16 rows of w × 16 rows of x as mma_bf16 leaves them, and begins the next chunk's chain.
DEVICE void store_chunk(Sums& sums, float (&chunk)[1][2][4]) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
        const int col = lane / 4 + i % 4 / 2 * 8;
        sums.values[row][col] = chunk[0][i / 4][i % 4];
        chunk[0][i / 4][i % 4] = 0.f;
    }
}

// Leaves the sums of the calling warp's chunks in sums[chunk]. The weights are the first factor, so that the tensor core's
// 16 rows are 16 weight rows, each read once.
template <class WRow>
DEVICE void sum_chunks(Ring& ring, Sums* sums, const FewX& x, WRow w_row, const WarpTiles& own) {
    FewW w(threadIdx.x % WARP_LANES, w_row);
    const auto begin = [&](int i) {
        if (own.has(i)) {
            x.begin(i, own.tile(i) * K_TILE);
            w.begin(ring.w, i, own.tile(i) * K_TILE);
        }
        cp_async_commit();
    };
    const auto look_ahead = [&](int i) { w.look_ahead(own.tile(i) * K_TILE); };
    begin_tiles<FEW_STAGES - 1>(begin, look_ahead);
    float chunk[1][2][4] = {}; // 16 × 16
    for (int i = 0; own.has(i); ++i) {
        cp_async_wait<FEW_STAGES - 2>();
        Panel<FEW_COLS>& few_w = w.arrived(ring.w, i);
        __syncwarp(); // the tile has arrived for all lanes, and all are done with the one before
        begin(i + FEW_STAGES - 1);
        look_ahead(i + LOOK_AHEAD);
#pragma unroll
        for (int step = 0; step < K_TILE / K_STEP; ++step) {
            uint32 of_w[1][4]; // 16 × 16
            uint32 of_x[1][4]; // 16 × 16
            load_rows(of_w, few_w, 0, step);
            x.load(of_x, i, step);
            mma_bf16(chunk, of_w, of_x);
        }
        if (own.ends_chunk(i)) {
            store_chunk(sums[own.chunk(i)], chunk);
        }
    }
}

// The calling block's columns of y, of at most FEW_ROWS rows.
template <class Finished>
DEVICE void multiply_few_rows(const Operands& p, Finished finished) {
    const int warps = blockDim.x / WARP_LANES;
    const int warp = threadIdx.x / WARP_LANES;
    const int chunks = (p.k + K_CHUNK - 1) / K_CHUNK;
    SHARED_ARRAY(Ring, rings, warps);
    Sums* const sums = reinterpret_cast<Sums*>(rings + warps);
    bf16* const rings_of_x = reinterpret_cast<bf16*>(sums + chunks);
    const int first_col = blockIdx.x * FEW_COLS;
    const auto w_row = [=](int j) { return row_of(p.w, first_col + j, p.m, p.k); };
    const WarpTiles own = {warp, warps, (p.k + K_TILE - 1) / K_TILE};
    sum_chunks(rings[warp], sums, FewX(rings_of_x + warp * FewX::values(p.n), p), w_row, own);
    __syncthreads();

    for (int i = threadIdx.x; i < p.n * FEW_COLS; i += blockDim.x) {
        const int row = i / FEW_COLS;
        const int col = first_col + i % FEW_COLS;
        float total = 0.f;
        for (int chunk = 0; chunk < chunks; ++chunk) {
            total += sums[chunk].values[row][i % FEW_COLS];
        }
        if (col < p.ldy) {
            Out::store(p.y + int64(row) * p.ldy + col, col < p.m ? finished(total, col) : 0.f);
        }
    }
}
