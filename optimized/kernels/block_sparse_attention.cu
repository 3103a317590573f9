// Block-sparse attention: each token's softmax-weighted mean of the values in the blocks chosen for it.
//
// ```text
// o(h,i) = attention(q(h,i); k(g,J), v(g,J))        J = the j ≤ pᵢ with ⌊j/b⌋ in C(g,i)        g = ⌊h·G/H⌋
// ```
//
// - Launch: block_sparse_attention_prefill: ⌈n/TOKENS⌉ × G·R blocks of 4 warps, where R = ⌈H/G/16⌉; block (i, g + G·r)
//   owns heads 16r to 16r + 15 of group g, warp w of token i·TOKENS + w. block_sparse_attention_split: S × n·G·R blocks of
//   4 warps, where S = ⌈K·⌈b/64⌉/4⌉; block (s, g + G·(r + R·i)) owns the same heads of token i, warp w its tile 4s + w.
//   block_sparse_attention_merge: n × H blocks of D threads, or a warp.
// - Requires: K1 q holds n rows of H·D values; K2 k and v hold first + n rows of G·D, all rows 16-byte aligned; K3
//   channels from d to D are 0; K4 o holds n rows of ld values, H·d ≤ ld; K5 parts as the split's launch says, 16-byte
//   aligned; K6 chosen holds n·C rows of ldc values, where group g has row g % C of a token's, of which K ≤ 32 are
//   different blocks of b ≥ 1 keys, or −1; K7 shared memory: sizeof(Prefill), sizeof(Split); K8 H a multiple of G; nothing
//   overlaps.
// - Not a number: a tile of values is shared by the tokens of a block of the prefill, where 0·v of one that is not finite
//   reaches all that chose it.
// - Precision: as attention's. A token's chosen blocks are taken upward, each cut into tiles of 64 keys of its own; so
//   with whole tiles and all blocks chosen, the bits are attention's. Chosen blocks beyond a token's own count as not
//   chosen.

#include "parts.cuh"
#include "split.cuh"

constexpr int TOKENS = 4;
constexpr int PREFILL_THREADS = TOKENS * WARP_LANES;

// What all entries are told about blocks.
struct Blocks {
    const int* chosen;
    int choices;
    int ld;
    int count;
    int keys;

    // Tiles that a block is cut into.
    __device__ __forceinline__ int tiles() const {
        return (keys + TILE_KEYS - 1) / TILE_KEYS;
    }

    // The calling lane's choice, one of at most 32, for a token and group, if the token, at `position`, sees it; else −1.
    __device__ __forceinline__ int of_lane(int token, int group, int position) const {
        const int lane = threadIdx.x % WARP_LANES;
        const int64 row = int64(token) * choices + group % choices;
        const int block = lane < count ? chosen[row * ld + lane] : -1;
        return block <= position / keys ? block : -1;
    }
};

// Keys of a tile of a block, from `first` on, up to which one a token at `position` sees them.
struct Keys {
    int first;
    int last;

    __device__ __forceinline__ Keys(int block, int tile, int keys, int position)
        : first(block * keys + tile * TILE_KEYS), last(min(position, block * keys + keys - 1)) {}
};

// Begins copying 16 heads of a token's queries, from `head` on, of which `heads` exist; by `threads` threads.
template <int ROWS>
DEVICE void copy_heads(HeadRows<ROWS>& to, int row, const bf16* q, int heads, int thread, int threads) {
    for (int i = thread; i < QUERY_ROWS * ROW_VECTORS; i += threads) {
        const int head = i / ROW_VECTORS;
        const int column = i % ROW_VECTORS * 8;
        const bool inside = head < heads;
        cp_async16(&to.values[row + head][column], q + (inside ? head * D + column : 0), inside ? 16 : 0);
    }
}

struct Prefill {
    HeadRows<TOKENS * QUERY_ROWS> queries;
    KeyRing ring;
    Totals<PREFILL_THREADS> totals;
    // What the tokens chose, a warp's lanes side by side, and what of it no one chose before.
    int chosen[PREFILL_THREADS];
    int distinct[PREFILL_THREADS];
    // The distinct blocks, upward, with a bit for each token that chose it.
    int blocks[PREFILL_THREADS];
    int choosers[PREFILL_THREADS];
};

// Fills `blocks` and `choosers` from each thread's choice; how many there are. Every thread of the block calls it.
DEVICE int unite(Prefill& shared, int mine) {
    shared.chosen[threadIdx.x] = mine;
    __syncthreads();
    bool is_first = mine >= 0;
    int choosers = 0;
    for (int other = 0; other < PREFILL_THREADS; ++other) {
        if (shared.chosen[other] == mine) {
            choosers |= 1 << other / WARP_LANES;
            is_first = is_first && other >= int(threadIdx.x);
        }
    }
    shared.distinct[threadIdx.x] = is_first ? mine : -1;
    const int count = __syncthreads_count(is_first);
    if (is_first) {
        int below = 0;
        for (int other = 0; other < PREFILL_THREADS; ++other) {
            below += shared.distinct[other] >= 0 && shared.distinct[other] < mine;
        }
        shared.blocks[below] = mine;
        shared.choosers[below] = choosers;
    }
    __syncthreads();
    return count;
}

extern "C" __global__ void __launch_bounds__(PREFILL_THREADS, 2)
block_sparse_attention_prefill(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v,
                               const int* __restrict__ chosen, bf16* __restrict__ o, int n, int first, int heads, int groups,
                               int choices, int top_k, int block_keys, int d, int ldc, int ld, float scale) {
    SHARED_MEMORY(Prefill, shared);
    const Blocks blocks = {chosen, choices, ldc, top_k, block_keys};
    const int group = blockIdx.y % groups;
    const int heads_of_group = heads / groups;
    const int first_head = blockIdx.y / groups * QUERY_ROWS;
    const int rows = min(QUERY_ROWS, heads_of_group - first_head);
    const int64 stride = int64(groups) * D;
    const int warp = threadIdx.x / WARP_LANES;
    const int lane = threadIdx.x % WARP_LANES;
    const int token = blockIdx.x * TOKENS + warp;
    const bool is_token = token < n;
    const int position = first + token;
    const int last = first + min(int(blockIdx.x) * TOKENS + TOKENS, n) - 1;
    const int64 head = int64(token) * heads + group * heads_of_group + first_head;
    copy_heads(shared.queries, warp * QUERY_ROWS, q + (is_token ? head * D : 0), is_token ? rows : 0, lane, WARP_LANES);
    const int tiles = unite(shared, is_token ? blocks.of_lane(token, group, position) : -1) * blocks.tiles();
    const auto copy = [&](HeadRows<TILE_KEYS>& to, const bf16* rows, int tile) {
        const Keys keys(shared.blocks[tile / blocks.tiles()], tile % blocks.tiles(), block_keys, last);
        const int64 from = keys.first * stride + int64(group) * D;
        const int left = keys.last + 1 - keys.first;
        copy_rows(to, rows + (left > 0 ? from : 0), stride, left, threadIdx.x, PREFILL_THREADS);
    };
    if (tiles > 0) {
        copy(shared.ring.keys(0), k, 0);
    }
    cp_async_commit();
    if (tiles > 0) {
        copy(shared.ring.values(0), v, 0);
    }
    cp_async_commit();

    Total total = no_total(shared.totals);
    Part parts = no_keys();
    int done = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<1>();
        __syncthreads(); // the keys have arrived for all, and all are done with the values before them
        if (tile + 1 < tiles) {
            copy(shared.ring.keys(tile + 1), k, tile + 1);
        }
        cp_async_commit();
        const bool is_chosen = (shared.choosers[tile / blocks.tiles()] >> warp & 1) != 0;
        Part part;
        float scores[1][TILE_KEYS / 8][4] = {}; // 16 × 64
        if (is_chosen) {
            const Keys keys(shared.blocks[tile / blocks.tiles()], tile % blocks.tiles(), block_keys, position);
            const int seen[2] = {keys.last, keys.last};
            score_tile(shared.queries, warp * QUERY_ROWS, shared.ring.keys(tile), scores);
            weigh_tile(scores, keys.first, seen, scale, part);
        }
        cp_async_wait<1>();
        __syncthreads(); // the values have arrived for all, and all are done with their keys
        if (tile + 1 < tiles) {
            copy(shared.ring.values(tile + 1), v, tile + 1);
        }
        cp_async_commit();
        if (is_chosen) {
            add_values(scores, shared.ring.values(tile), part);
            merge(parts, part);
            ++done;
            if (done % GROUP_TILES == 0) {
                merge(shared.totals, total, parts);
                parts = no_keys();
            }
        }
    }
    merge(shared.totals, total, parts);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + 8 * half;
        if (is_token && row < rows) {
            const int column = (group * heads_of_group + first_head + row) * d;
            store(shared.totals, total, half, o + int64(token) * ld + column, d);
        }
    }
}

// The block that has so many below it among those of the calling warp's first `count` lanes, in every lane; −1 if there is none.
// Other lanes have none.
DEVICE int block_of_rank(int mine, int count, int rank) {
    int below = 0;
#pragma unroll 8
    for (int other = 0; other < count; ++other) {
        const int block = __shfl_sync(FULL_WARP, mine, other);
        below += block >= 0 && block < mine;
    }
    const uint32 votes = __ballot_sync(FULL_WARP, mine >= 0 && below == rank);
    return votes == 0 ? -1 : __shfl_sync(FULL_WARP, mine, __ffs(votes) - 1);
}

// The part of query (token, head) and key group s goes to index (token·H + head)·S + s: largest and sum to stats, values to parts.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS)
block_sparse_attention_split(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v,
                             const int* __restrict__ chosen, float2* __restrict__ stats, float* __restrict__ parts, int first,
                             int heads, int groups, int choices, int top_k, int block_keys, int ldc, float scale) {
    SHARED_MEMORY(Split, shared);
    const Blocks blocks = {chosen, choices, ldc, top_k, block_keys};
    const int group = blockIdx.y % groups;
    const int heads_of_group = heads / groups;
    const int row_tiles = (heads_of_group + QUERY_ROWS - 1) / QUERY_ROWS;
    const int first_head = blockIdx.y / groups % row_tiles * QUERY_ROWS;
    const int token = blockIdx.y / groups / row_tiles;
    const int rows = min(QUERY_ROWS, heads_of_group - first_head);
    const int64 stride = int64(groups) * D;
    const int64 head = int64(token) * heads + group * heads_of_group + first_head;
    const int mine = blocks.of_lane(token, group, first + token);
    copy_heads(shared.queries, 0, q + head * D, rows, threadIdx.x, SPLIT_THREADS);
    const int tile = blockIdx.x * GROUP_TILES + threadIdx.x / WARP_LANES;
    const int block = block_of_rank(mine, top_k, tile / blocks.tiles());
    const Keys keys(block, tile % blocks.tiles(), block_keys, first + token);
    const int left = block < 0 ? 0 : keys.last + 1 - keys.first;
    const int64 from = left > 0 ? keys.first * stride + int64(group) * D : 0;
    const TileRows rows_of_tile = {k + from, v + from, stride, left};
    copy_keys(shared, rows_of_tile);
    const int seen[2] = {keys.last, keys.last};
    attend_split(shared, rows_of_tile, keys.first, seen, scale);

    for (int i = threadIdx.x; i < rows * D / 4; i += SPLIT_THREADS) {
        const int row = i / (D / 4);
        const int64 index = (head + row) * gridDim.x + blockIdx.x;
        merge_row(shared, row, i % (D / 4) * 4, stats[index], parts + index * D);
    }
}

extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
block_sparse_attention_merge(const float2* __restrict__ stats, const float* __restrict__ parts, bf16* __restrict__ o,
                             int splits, int d, int ld) {
    const int64 query = int64(blockIdx.x) * gridDim.y + blockIdx.y;
    merge_splits(stats + query * splits, parts + query * splits * D, splits, o + int64(blockIdx.x) * ld + blockIdx.y * d, d);
}
