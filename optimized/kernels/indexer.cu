// Indexer: scores every visible token for each group of heads, and chooses the blocks of keys of largest score.
//
// ```text
// s(h,i,j) = σ·q(h,i)·k(j) for j ≤ pᵢ, else −∞        m(h,i,c) = max of s(h,i,j) over b·c ≤ j < b·(c + 1)
// C(h,i) = the K blocks c of largest m(h,i,c), those of m = −∞ left out, where m = ∞ for c = ⌊pᵢ/b⌋ and the L − 1 before
// ```
//
// - Launch: indexer_scores: ⌈n·G/ROWS⌉ × ⌈B/(SPANS·⌊64/b⌋)⌉ blocks of 4 warps, B/SPANS where b > 64; block (i, j) owns
//   ROWS rows of m, and SPANS spans of keys: the blocks that fit a tile, or one. indexer_few_rows, instead of it: ⌈n·G/16⌉ ×
//   ⌈B/(FEW_WARPS·⌊64/b⌋)⌉ blocks of FEW_WARPS warps, B where b > 64; block (i, j) owns 16 rows of m, a warp a span, or,
//   where b > 64, all of them one. indexer_merge: n × ⌈B/THREADS⌉ blocks of WARPS warps, block (i, j) owns THREADS blocks of
//   token i. indexer_choose: n·G blocks of W ≤ CHOOSE_WARPS warps, a block a row.
// - Requires: K1 q holds n·G rows of D values, k first + n, 16-byte aligned; K2 channels beyond the head's are 0; K3 m
//   holds n·G rows of ldm values, B ≤ ldm, where B = ⌈(first + n)/b⌉; K4 chosen holds n·G rows of ldc values, K ≤ ldc, K ≤
//   32; K5 shared memory: sizeof(Scores) for indexer_scores, sizeof(FewScores) for indexer_few_rows, sizeof(Candidates) for
//   indexer_choose; K6 b ≥ 1; nothing overlaps.
// - Precision: a score is one chain of tensor-core steps of 16 bf16 products, upward from 0, and is rounded no further;
//   the rest is exact. NaN counts as larger than any number, −0 as 0; of equal blocks the lowest is chosen first.
// - Variants: D21 for each group, or after indexer_merge for all; D22 the token's own block and those before it are
//   forced, D23 the first ones if asked for; D24 σ = 1; m is the maximum, and what fills up the last block does not count.

#include "attention.cuh"
#include "choice.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP_LANES;
constexpr int ROWS = WARPS * QUERY_ROWS;
constexpr int SPANS = 4;
constexpr int FEW_WARPS = 2;
constexpr int FEW_THREADS = FEW_WARPS * WARP_LANES;

struct Scores {
    HeadRows<ROWS> queries;
    HeadRows<TILE_KEYS> keys[2];
};

// How keys are cut: a span is the blocks that fit a tile, or one block in several tiles.
struct Spans {
    int block;

    __device__ __forceinline__ int blocks() const {
        return max(1, TILE_KEYS / block);
    }
    __device__ __forceinline__ int tiles() const {
        return (blocks() * block + TILE_KEYS - 1) / TILE_KEYS;
    }
};

// The largest of one half's scores, in order, whose keys, counted from the span's first, are from `from` up to `to`.
DEVICE uint32 largest_score(const float (&scores)[1][TILE_KEYS / 8][4], int half, int first, int from, int to) {
    const int lane = threadIdx.x % WARP_LANES;
    uint32 largest = NOTHING;
#pragma unroll
    for (int j = 0; j < TILE_KEYS / 8; ++j) {
#pragma unroll
        for (int element = 2 * half; element < 2 * half + 2; ++element) {
            const int key = first + 8 * j + lane % 4 * 2 + element % 2;
            const uint32 score = ordered(scores[0][j][element] + 0.f);
            largest = from <= key && key < to ? max(largest, score) : largest;
        }
    }
    largest = max(largest, __shfl_xor_sync(FULL_WARP, largest, 1));
    return max(largest, __shfl_xor_sync(FULL_WARP, largest, 2));
}

// m: row i·G + g has the blocks' largest scores of query i of index head g.
extern "C" __global__ void __launch_bounds__(THREADS)
indexer_scores(const bf16* __restrict__ q, const bf16* __restrict__ k, float* __restrict__ m, int n, int first, int heads,
               int block, int blocks, int ldm) {
    SHARED_MEMORY(Scores, shared);
    const Spans spans = {block};
    const int first_row = blockIdx.x * ROWS;
    const int rows = min(ROWS, n * heads - first_row);
    const int last = first + (first_row + rows - 1) / heads;
    const int first_span = blockIdx.y * SPANS;
    const int end_span = min(first_span + SPANS, (blocks + spans.blocks() - 1) / spans.blocks());
    const int tiles = (end_span - first_span) * spans.tiles();
    const auto first_key = [&](int tile) {
        return (first_span + tile / spans.tiles()) * spans.blocks() * block + tile % spans.tiles() * TILE_KEYS;
    };
    const auto copy = [&](int tile) {
        const int left = max(last + 1 - first_key(tile), 0);
        const bf16* const from = k + (left > 0 ? int64(first_key(tile)) * D : 0);
        copy_rows(shared.keys[tile % 2], from, D, left, threadIdx.x, THREADS);
    };
    copy_rows(shared.queries, q + int64(first_row) * D, D, rows, threadIdx.x, THREADS);
    copy(0);
    cp_async_commit();

    const int warp_row = threadIdx.x / WARP_LANES * QUERY_ROWS;
    const int lane = threadIdx.x % WARP_LANES;
    uint32 largest[2] = {NOTHING, NOTHING};
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<0>();
        __syncthreads(); // the tile has arrived for all, and all are done with the one before
        if (tile + 1 < tiles) {
            copy(tile + 1);
        }
        cp_async_commit();
        float scores[1][TILE_KEYS / 8][4] = {}; // 16 × 64
        if (first_key(tile) <= last) {
            score_tile(shared.queries, warp_row, shared.keys[tile % 2], scores);
        }
        const int part = tile % spans.tiles();
        const int first_block = (first_span + tile / spans.tiles()) * spans.blocks();
        for (int i = 0; i < spans.blocks(); ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + warp_row + lane / 4 + 8 * half;
                const int seen = first + row / heads + 1 - first_block * block;
                const uint32 of_tile =
                    largest_score(scores, half, part * TILE_KEYS, i * block, min((i + 1) * block, seen));
                largest[half] = part == 0 ? of_tile : max(largest[half], of_tile);
                const bool is_whole = part == spans.tiles() - 1;
                if (is_whole && lane % 4 == 0 && row < n * heads && first_block + i < blocks) {
                    m[int64(row) * ldm + first_block + i] = unordered(largest[half]);
                }
            }
        }
    }
}

struct FewScores {
    HeadRows<QUERY_ROWS> queries;
    HeadRows<TILE_KEYS> keys[FEW_WARPS];
    uint32 largest[FEW_WARPS][QUERY_ROWS];
};

// The same for few rows: all keys of a block are on their way at once, if it has no more tiles than there are warps.
extern "C" __global__ void __launch_bounds__(FEW_THREADS)
indexer_few_rows(const bf16* __restrict__ q, const bf16* __restrict__ k, float* __restrict__ m, int n, int first, int heads,
                 int block, int blocks, int ldm) {
    SHARED_MEMORY(FewScores, shared);
    const Spans spans = {block};
    const int first_row = blockIdx.x * QUERY_ROWS;
    const int rows = min(QUERY_ROWS, n * heads - first_row);
    const int last = first + (first_row + rows - 1) / heads;
    const int warp = threadIdx.x / WARP_LANES;
    const int lane = threadIdx.x % WARP_LANES;
    const bool is_alone = spans.tiles() == 1;
    const int span = is_alone ? blockIdx.y * FEW_WARPS + warp : blockIdx.y;
    const int first_block = span * spans.blocks();
    const int first_key = first_block * block;
    const int step = is_alone ? 1 : FEW_WARPS;
    HeadRows<TILE_KEYS>& keys = shared.keys[warp];
    const auto copy = [&](int tile) {
        const int key = first_key + tile * TILE_KEYS;
        const int left = max(last + 1 - key, 0);
        copy_rows(keys, k + (left > 0 ? int64(key) * D : 0), D, left, lane, WARP_LANES);
    };
    int tile = is_alone ? 0 : warp;
    copy_rows(shared.queries, q + int64(first_row) * D, D, rows, threadIdx.x, FEW_THREADS);
    copy(tile);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads(); // queries and first tiles have arrived for all

    uint32 largest[2] = {NOTHING, NOTHING};
    for (; tile < spans.tiles(); tile += step) {
        float scores[1][TILE_KEYS / 8][4] = {}; // 16 × 64
        score_tile(shared.queries, 0, keys, scores);
        __syncwarp(); // all lanes are done with the tile
        if (tile + step < spans.tiles()) {
            copy(tile + step);
        }
        cp_async_commit();
        for (int i = 0; i < spans.blocks(); ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_row + lane / 4 + 8 * half;
                const int seen = first + row / heads + 1 - first_key;
                const uint32 of_tile =
                    largest_score(scores, half, tile * TILE_KEYS, i * block, min((i + 1) * block, seen));
                largest[half] = max(largest[half], of_tile);
                if (is_alone && lane % 4 == 0 && row < n * heads && first_block + i < blocks) {
                    m[int64(row) * ldm + first_block + i] = unordered(of_tile);
                }
            }
        }
        cp_async_wait<0>();
        __syncwarp(); // the next tile has arrived for all lanes
    }
    if (is_alone) {
        return;
    }
    if (lane % 4 == 0) {
        shared.largest[warp][lane / 4] = largest[0];
        shared.largest[warp][lane / 4 + 8] = largest[1];
    }
    __syncthreads();
    if (int(threadIdx.x) < rows) {
        uint32 of_block = NOTHING;
        for (int i = 0; i < FEW_WARPS; ++i) {
            of_block = max(of_block, shared.largest[i][threadIdx.x]);
        }
        m[int64(first_row + threadIdx.x) * ldm + first_block] = unordered(of_block);
    }
}

// The largest of all heads' scores of each token's blocks, for one choice that serves all groups; a thread a block.
extern "C" __global__ void __launch_bounds__(THREADS)
indexer_merge(const float* __restrict__ m, float* __restrict__ merged, int heads, int blocks, int ldm) {
    const int64 token = blockIdx.x;
    const int block = blockIdx.y * THREADS + threadIdx.x;
    if (block >= blocks) {
        return;
    }
    uint32 largest = NOTHING;
#pragma unroll 4
    for (int head = 0; head < heads; ++head) {
        largest = max(largest, ordered(m[(token * heads + head) * ldm + block]));
    }
    merged[token * ldm + block] = unordered(largest);
}

// The blocks of each row of m that are chosen, from the largest down; −1 where there is no other, and in padding.
extern "C" __global__ void __launch_bounds__(CHOOSE_WARPS * WARP_LANES)
indexer_choose(const float* __restrict__ m, int* __restrict__ chosen, int first, int heads, int block, int top_k, int local,
               int init, int ldm, int ldc) {
    SHARED_MEMORY(Candidates, shared);
    const int row = blockIdx.x;
    const int warp = threadIdx.x / WARP_LANES;
    const int warps = blockDim.x / WARP_LANES;
    const int lane = threadIdx.x % WARP_LANES;
    const int own = (first + row / heads) / block;
    Best kept = best_of_row(m + int64(row) * ldm, {local, init}, own, warp, warps, top_k);
    if (warps > 1) {
        shared.scores[warp][lane] = kept.score;
        shared.blocks[warp][lane] = kept.block;
        __syncthreads();
        if (warp > 0) {
            return;
        }
        Best all[CHOOSE_WARPS];
#pragma unroll
        for (int i = 0; i < CHOOSE_WARPS; ++i) {
            all[i] = {i < warps ? shared.scores[i][lane] : 0, i < warps ? shared.blocks[i][lane] : -1};
        }
        kept = best_of_warp(all, top_k);
    }
    if (lane < top_k) {
        chosen[int64(row) * ldc + lane] = kept.block;
    }
}
