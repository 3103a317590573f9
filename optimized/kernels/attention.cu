// Attention: each token's softmax-weighted mean of the values before it and its own.
//
// ```text
// o(h,i) = Σⱼ ρ(p(h,i,j))·v(g,j)        p = softmax over j ≤ i of σ·q(h,i)·k(g,j)        g = ⌊h·G/H⌋
// ```
//
// - Launch: attention_prefill: ⌈n/PREFILL_ROWS⌉ × H blocks of 4 warps, block (i, h) owns PREFILL_ROWS queries of head h,
//   block (0, h) the last ones. attention_split: groups of keys × G·⌈n·H/G/16⌉ blocks of 4 warps, block (s, g + G·r) owns
//   queries 16r to 16r+15 of group g, one a row: token row / (H/G), head row % (H/G); warp w attends tile w of key group
//   s. attention_merge: n × H blocks of D threads, or a warp.
// - Requires: K1 q holds n rows of H·D values; K2 k and v hold first + n rows of G·D, all rows 16-byte aligned; K3
//   channels from d to D are 0; K4 o holds n rows of ld values, H·d ≤ ld; K5 parts as attention_split's launch says, 16-byte
//   aligned; K6 shared memory: sizeof(Prefill), sizeof(Split); K7 H a multiple of G; nothing overlaps.
// - Not a number: the tensor cores add 0·v for keys that a query does not see, so a value that is not finite reaches every
//   query that shares its tile of keys, earlier ones too; the reference leaves it out.
// - Precision: scores and sums of values in bf16 products as the tensor cores add them, 16 at a time; maxima, weights and
//   sums f32, in base 2; ρ rounds weights to bf16 before they are divided; the order of merging is attention.cuh's; one
//   rounding to bf16, to nearest even, at o.

#include "prefill.cuh"
#include "split.cuh"

extern "C" __global__ void __launch_bounds__(PREFILL_THREADS, 2)
attention_prefill(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v, bf16* __restrict__ o,
                  int n, int first, int heads, int groups, int d, int ld, float scale) {
    SHARED_MEMORY(Prefill, shared);
    const int head = blockIdx.y;
    const int64 of_group = int64(head / (heads / groups)) * D;
    const int first_row = (gridDim.x - 1 - blockIdx.x) * PREFILL_ROWS; // those that see most keys begin
    const int rows = min(PREFILL_ROWS, n - first_row);
    const int keys = first + first_row + rows;
    const int position = first + first_row + query_of_lane();
    const int positions[2] = {position, position + 8};
    const int64 queries = (int64(first_row) * heads + head) * D;
    const auto out = [=](int query) { return o + int64(first_row + query) * ld + head * d; };
    attend(shared, {q + queries, k + of_group, v + of_group, heads * D, groups * D, rows, keys}, positions, scale, out, d);
}

// Which token and head a row of a group's queries is.
struct Query {
    int token;
    int head;
};

DEVICE Query query_of(int row, int group, int heads_of_group) {
    return {row / heads_of_group, group * heads_of_group + row % heads_of_group};
}

// The part of query (token, head) and key group s goes to index (token·H + head)·splits + s: largest and sum to stats, values to
// parts.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS)
attention_split(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v, float2* __restrict__ stats,
                float* __restrict__ parts, int n, int first, int heads, int groups, float scale) {
    SHARED_MEMORY(Split, shared);
    const int split = blockIdx.x;
    const int group = blockIdx.y % groups;
    const int heads_of_group = heads / groups;
    const int first_row = blockIdx.y / groups * QUERY_ROWS;
    const int rows = min(QUERY_ROWS, n * heads_of_group - first_row);
    const int64 stride = int64(groups) * D;
    const int lane = threadIdx.x % WARP_LANES;
    const int first_key = split * GROUP_KEYS + threadIdx.x / WARP_LANES * TILE_KEYS;
    const int left = first + n - first_key;
    const int64 from = left > 0 ? first_key * stride + int64(group) * D : 0;
    const TileRows tile = {k + from, v + from, stride, left};
    copy_keys(shared, tile);
    for (int i = threadIdx.x; i < QUERY_ROWS * ROW_VECTORS; i += SPLIT_THREADS) {
        const int row = i / ROW_VECTORS;
        const int column = i % ROW_VECTORS * 8;
        const bool inside = row < rows;
        const Query query = query_of(inside ? first_row + row : 0, group, heads_of_group);
        const int64 head = int64(query.token) * heads + query.head;
        cp_async16(&shared.queries.values[row][column], q + head * D + column, inside ? 16 : 0);
    }
    const int tokens[2] = {(first_row + lane / 4) / heads_of_group, (first_row + lane / 4 + 8) / heads_of_group};
    const int positions[2] = {first + min(tokens[0], n - 1), first + min(tokens[1], n - 1)};
    attend_split(shared, tile, first_key, positions, scale);

    const int splits = gridDim.x;
    for (int i = threadIdx.x; i < rows * D / 4; i += SPLIT_THREADS) {
        const int row = i / (D / 4);
        const Query query = query_of(first_row + row, group, heads_of_group);
        const int64 index = (int64(query.token) * heads + query.head) * splits + split;
        merge_row(shared, row, i % (D / 4) * 4, stats[index], parts + index * D);
    }
}

extern "C" __global__ void __launch_bounds__(MERGE_THREADS)
attention_merge(const float2* __restrict__ stats, const float* __restrict__ parts, bf16* __restrict__ o, int splits, int d,
                int ld) {
    const int64 query = int64(blockIdx.x) * gridDim.y + blockIdx.y;
    merge_splits(stats + query * splits, parts + query * splits * D, splits, o + int64(blockIdx.x) * ld + blockIdx.y * d, d);
}
