// Indexer: scores every visible token for each group of heads, and chooses the blocks of keys of largest score.
//
// ```text
// s(h,i,j) = σ·q(h,i)·k(j) for j ≤ pᵢ, else −∞        m(h,i,c) = max of s(h,i,j) over b·c ≤ j < b·(c + 1)
// C(h,i) = the K blocks c of largest m(h,i,c), those of m = −∞ left out, where m = ∞ for c = ⌊pᵢ/b⌋ and the L − 1 before
// ```
//
// - Launch: indexer_scores: ⌈n·G/ROWS⌉ × ⌈B/(SPANS·⌊64/b⌋)⌉ blocks of 4 warps, B/SPANS where b > 64; block (i, j) owns
//   ROWS rows of m, and SPANS spans of keys: the blocks that fit a tile, or one. indexer_merge: n blocks of WARPS warps,
//   block i owns token i. indexer_choose: ⌈n·G/WARPS⌉ blocks of WARPS warps, a warp a row.
// - Requires: K1 q holds n·G rows of D values, k first + n, 16-byte aligned; K2 channels beyond the head's are 0; K3 m
//   holds n·G rows of ldm values, B ≤ ldm, where B = ⌈(first + n)/b⌉; K4 chosen holds n·G rows of ldc values, K ≤ ldc, K ≤
//   32; K5 shared memory: sizeof(Scores) for indexer_scores; K6 b ≥ 1; nothing overlaps.
// - Precision: a score is one chain of tensor-core steps of 16 bf16 products, upward from 0, and is rounded no further;
//   the rest is exact. NaN counts as larger than any number, −0 as 0; of equal blocks the lowest is chosen first.
// - Variants: D21 for each group, or after indexer_merge for all; D22 the token's own block and those before it are
//   forced, D23 the first ones if asked for; D24 σ = 1; m is the maximum, and what fills up the last block does not count.

#include "attention.cuh"
#include "ordered.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP_LANES;
constexpr int ROWS = WARPS * QUERY_ROWS;
constexpr int SPANS = 4;
// What −∞ and ∞ are in order. A block of which no key is seen has −∞.
constexpr uint32 NOTHING = 0x007fffff;
constexpr uint32 INFINITE = 0xff800000;

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

// The largest of all heads' scores of each token's blocks, for one choice that serves all groups; a thread a block.
extern "C" __global__ void __launch_bounds__(THREADS)
indexer_merge(const float* __restrict__ m, float* __restrict__ merged, int heads, int blocks, int ldm) {
    const int64 token = blockIdx.x;
    for (int block = threadIdx.x; block < blocks; block += THREADS) {
        uint32 largest = NOTHING;
        for (int head = 0; head < heads; ++head) {
            largest = max(largest, ordered(m[(token * heads + head) * ldm + block]));
        }
        merged[token * ldm + block] = unordered(largest);
    }
}

struct Best {
    uint32 score;
    int block;
};

// Blocks that are chosen whatever their scores: the last ones up to a token's own, and the first ones.
struct Forced {
    int local;
    int init;
};

// In order of choice: the larger first, of equals the lower.
DEVICE bool is_before(const Best& a, const Best& b) {
    return a.score > b.score || (a.score == b.score && a.block < b.block);
}

// The best of the calling lane's blocks that come after `after`; if there is none, 0 and a block that is none.
DEVICE Best best_after(const Best& after, const float* m, const Forced& forced, int own) {
    Best best = {0, own + 1};
    for (int block = threadIdx.x % WARP_LANES; block <= own; block += WARP_LANES) {
        const bool is_forced = block > own - forced.local || block < forced.init;
        const Best here = {is_forced ? INFINITE : ordered(m[block] + 0.f), block};
        if (is_before(after, here) && is_before(here, best)) {
            best = here;
        }
    }
    return best;
}

DEVICE Best best_of_warp(Best best) {
#pragma unroll
    for (int lanes = WARP_LANES / 2; lanes != 0; lanes /= 2) {
        const Best other = {__shfl_xor_sync(FULL_WARP, best.score, lanes), __shfl_xor_sync(FULL_WARP, best.block, lanes)};
        best = is_before(other, best) ? other : best;
    }
    return best;
}

// The blocks of each row of m that are chosen, from the largest down; −1 where there is no other, and in padding.
extern "C" __global__ void __launch_bounds__(THREADS)
indexer_choose(const float* __restrict__ m, int* __restrict__ chosen, int n, int first, int heads, int block, int top_k,
               int local, int init, int ldm, int ldc) {
    const int row = blockIdx.x * WARPS + threadIdx.x / WARP_LANES;
    if (row >= n * heads) {
        return;
    }
    const int lane = threadIdx.x % WARP_LANES;
    const float* const maxima = m + int64(row) * ldm;
    const int own = (first + row / heads) / block;
    const Forced forced = {local, init};
    Best mine = best_after({0xffffffff, -1}, maxima, forced, own);
    int kept = -1;
    for (int slot = 0; slot < top_k; ++slot) {
        const Best best = best_of_warp(mine);
        if (best.score <= NOTHING) {
            break;
        }
        kept = lane == slot ? best.block : kept;
        if (mine.block == best.block) {
            mine = best_after(best, maxima, forced, own);
        }
    }
    if (lane < top_k) {
        chosen[int64(row) * ldc + lane] = kept;
    }
}
