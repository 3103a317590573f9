// Linear: each row of x times the transpose of a weight.
//
// ```text
// yᵢⱼ = Σₖ xᵢₖ · wⱼₖ
// ```
//
// - Launch: linear_tiles: ⌈n/TILE_ROWS⌉ × ⌈m/TILE_COLS⌉ blocks of 32·WARPS_DOWN·WARPS_ACROSS threads, block (i, j) owns
//   the tile of y at row i·TILE_ROWS, column j·TILE_COLS. linear_few_rows: ⌈m/16⌉ blocks of 1 to 8 warps, block j owns
//   the columns of y from 16j on; warp v sums chunks v, v + warps, … of k.
// - Requires: K1 x holds n rows of ldx values, w holds m rows of ldw; K2 1 ≤ n, m and 1 ≤ k ≤ ldx, ldw; K3 y holds n
//   rows of ldy values, m ≤ ldy, and overlaps neither; K4 ldx, ldw and ldy multiples of 8, all rows 16-byte aligned; K5
//   n ≤ 16 in linear_few_rows; K6 shared memory: linear_tiles sizeof(Block::Shared), linear_few_rows a Ring for each
//   warp and a Sums for each chunk.
// - Precision: bf16 products summed as gemm.cuh says, the same in both entries; OUT = 16 rounds once, to nearest even,
//   to bf16; OUT = 32 keeps f32. Columns of y from m on become 0.

#include "gemm.cuh"

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
using Block = Tile<TILE_ROWS, TILE_COLS, WARPS_DOWN, WARPS_ACROSS, STAGES>;

extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
linear_tiles(const bf16* __restrict__ x, const bf16* __restrict__ w, Out::Value* __restrict__ y, int n, int m, int k,
             int ldx, int ldw, int ldy) {
    SHARED_MEMORY(Block::Shared, shared);
    const int first_row = blockIdx.x * TILE_ROWS;
    const int first_col = blockIdx.y * TILE_COLS;
    const auto x_row = [=](int i) -> Row {
        const int row = first_row + i;
        return row < n ? Row{x + int64(row) * ldx, k} : Row{x, 0};
    };
    const auto w_row = [=](int j) -> Row {
        const int row = first_col + j;
        return row < m ? Row{w + int64(row) * ldw, k} : Row{w, 0};
    };
    Block::Sums sums = {}; // WARP_ROWS × WARP_COLS
    Block::multiply(shared, x_row, w_row, k, sums);

    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int i = 0; i < Block::WARP_ROWS / 16; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + Block::warp_row() + 16 * i + 8 * half + lane / 4;
            if (row < n) {
#pragma unroll
                for (int j = 0; j < Block::WARP_COLS / 8; ++j) {
                    const int col = first_col + Block::warp_col() + 8 * j + lane % 4 * 2;
                    const float first = col < m ? sums[i][j][2 * half] : 0.f;
                    const float second = col + 1 < m ? sums[i][j][2 * half + 1] : 0.f;
                    if (col < ldy) {
                        Out::store_pair(y + int64(row) * ldy + col, first, second);
                    }
                }
            }
        }
    }
}

constexpr int FEW_ROWS = 16;
constexpr int FEW_COLS = 16;

// What a warp of linear_few_rows copies ahead: FEW_STAGES panels, which no other warp touches.
struct Ring {
    Panel<FEW_COLS> w[FEW_STAGES];
    Panel<FEW_ROWS> x[FEW_STAGES];
};

// A chunk's sums, [row of x][row of w], padded so that a warp's lanes store to different banks.
struct Sums {
    float values[FEW_ROWS][FEW_COLS + 4];
};

// The weights are the first factor, so that the tensor core's 16 rows are 16 weight rows, each read once.
extern "C" __global__ void __launch_bounds__(8 * WARP_LANES)
linear_few_rows(const bf16* __restrict__ x, const bf16* __restrict__ w, Out::Value* __restrict__ y, int n, int m, int k,
                int ldx, int ldw, int ldy) {
    constexpr int CHUNK_TILES = K_CHUNK / K_TILE;
    constexpr int LANE_ROWS = FEW_ROWS * ROW_VECTORS / WARP_LANES;
    const int warps = blockDim.x / WARP_LANES;
    const int warp = threadIdx.x / WARP_LANES;
    const int lane = threadIdx.x % WARP_LANES;
    SHARED_ARRAY(Ring, rings, warps);
    Ring& ring = rings[warp];
    Sums* const sums = reinterpret_cast<Sums*>(rings + warps);

    const int first_col = blockIdx.x * FEW_COLS;
    const int index = lane % ROW_VECTORS;
    Row x_rows[LANE_ROWS];
    Row w_rows[LANE_ROWS];
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
        const int row = lane / ROW_VECTORS + i * (WARP_LANES / ROW_VECTORS);
        x_rows[i] = row < n ? Row{x + int64(row) * ldx, k} : Row{x, 0};
        w_rows[i] = first_col + row < m ? Row{w + int64(first_col + row) * ldw, k} : Row{w, 0};
    }
    // The warp's tiles, counted through its chunks. Only the last chunk of all may have fewer than CHUNK_TILES.
    const int tiles = (k + K_TILE - 1) / K_TILE;
    const int chunks = (tiles + CHUNK_TILES - 1) / CHUNK_TILES;
    const auto tile_of = [=](int i) { return (warp + i / CHUNK_TILES * warps) * CHUNK_TILES + i % CHUNK_TILES; };
    const auto copy = [&](int i) {
        const int from = tile_of(i) * K_TILE + index * VECTOR_VALUES;
#pragma unroll
        for (int j = 0; j < LANE_ROWS; ++j) {
            const int row = lane / ROW_VECTORS + j * (WARP_LANES / ROW_VECTORS);
            copy_vector(ring.w[i % FEW_STAGES], row, index, w_rows[j], from);
            copy_vector(ring.x[i % FEW_STAGES], row, index, x_rows[j], from);
        }
    };

    for (int i = 0; i < FEW_STAGES - 1; ++i) {
        if (tile_of(i) < tiles) {
            copy(i);
        }
        cp_async_commit();
    }
    float chunk[1][2][4] = {}; // 16 rows of w × 16 rows of x
    for (int i = 0; tile_of(i) < tiles; ++i) {
        cp_async_wait<FEW_STAGES - 2>();
        __syncwarp(); // the tile has arrived for all lanes, and all are done with the one before
        if (tile_of(i + FEW_STAGES - 1) < tiles) {
            copy(i + FEW_STAGES - 1);
        }
        cp_async_commit();
#pragma unroll
        for (int step = 0; step < K_TILE / K_STEP; ++step) {
            uint32 a[1][4]; // 16 × 16
            uint32 b[1][4]; // 16 × 16
            load_rows(a, ring.w[i % FEW_STAGES], 0, step);
            load_columns(b, ring.x[i % FEW_STAGES], 0, step);
            mma_bf16(chunk, a, b);
        }
        const bool is_last = i % CHUNK_TILES == CHUNK_TILES - 1 || tile_of(i) == tiles - 1;
        if (is_last) {
            Sums& of_chunk = sums[tile_of(i) / CHUNK_TILES];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
#pragma unroll
                for (int element = 0; element < 4; ++element) {
                    const int row = 8 * j + lane % 4 * 2 + element % 2;
                    const int col = lane / 4 + element / 2 * 8;
                    of_chunk.values[row][col] = chunk[0][j][element];
                    chunk[0][j][element] = 0.f;
                }
            }
        }
    }
    cp_async_wait<0>();
    __syncthreads();

    for (int i = threadIdx.x; i < n * FEW_COLS; i += blockDim.x) {
        const int row = i / FEW_COLS;
        const int col = first_col + i % FEW_COLS;
        float total = 0.f;
        for (int c = 0; c < chunks; ++c) {
            total += sums[c].values[row][i % FEW_COLS];
        }
        if (col < ldy) {
            Out::store(y + int64(row) * ldy + col, col < m ? total : 0.f);
        }
    }
}
