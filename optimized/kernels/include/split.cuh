// Few queries over keys that are split over blocks: a warp attends a tile, a block merges a group of them, and what the
// blocks leave is merged by another launch.
#pragma once

#include "attention.cuh"

constexpr int SPLIT_THREADS = GROUP_TILES * WARP_LANES;
constexpr int HALF_KEYS = TILE_KEYS / 2;
// A thread a channel, and whole warps.
constexpr int MERGE_THREADS = D < WARP_LANES ? WARP_LANES : D;
// Splits whose shares are handed around before it is asked whether there are more.
constexpr int MERGE_SPLITS = 8;

// The part of a tile, of 16 queries, padded so that eight rows' values at one channel lie in different banks.
struct TilePart {
    float largest[QUERY_ROWS];
    float sum[QUERY_ROWS];
    float values[QUERY_ROWS][D + 8];

    __device__ __forceinline__ void keep(const Part& part) {
        const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = lane / 4 + 8 * half;
            if (lane % 4 == 0) {
                largest[row] = part.largest[half];
                sum[row] = part.sum[half];
            }
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                float2& to = reinterpret_cast<float2&>(values[row][8 * j + lane % 4 * 2]);
                to = {part.values[j][2 * half], part.values[j][2 * half + 1]};
            }
        }
    }
};

// A warp's tile. Half of its values wait beside the keys, and are followed by its part; the other half follows the keys.
struct WarpTile {
    union {
        HeadRows<TILE_KEYS> keys;
        HeadRows<HALF_KEYS> late_values;
    };
    union {
        HeadRows<HALF_KEYS> early_values;
        TilePart part;
    };
};

struct Split {
    HeadRows<QUERY_ROWS> queries;
    WarpTile tiles[GROUP_TILES];
};

// A tile's keys and values in memory, of which `left` there are, each row `stride` values after the one before.
struct TileRows {
    const bf16* k;
    const bf16* v;
    int64 stride;
    int left;
};

// Begins copying the keys of the calling warp's tile.
DEVICE void copy_keys(Split& shared, const TileRows& rows) {
    if (rows.left > 0) {
        HeadRows<TILE_KEYS>& keys = shared.tiles[threadIdx.x / WARP_LANES].keys;
        copy_rows(keys, rows.k, rows.stride, rows.left, threadIdx.x % WARP_LANES, WARP_LANES);
    }
}

// Attends the calling warp's tile, whose part it leaves in shared memory: of no keys, if none are left. Its keys and the
// block's queries are on their way, in a group of copies that is not ended. Every thread of the block calls it.
DEVICE void attend_split(Split& shared, const TileRows& rows, int first_key, const int (&positions)[2], float scale) {
    const int lane = threadIdx.x % WARP_LANES;
    WarpTile& tile = shared.tiles[threadIdx.x / WARP_LANES];
    cp_async_commit();
    if (rows.left > 0) {
        copy_rows(tile.early_values, rows.v, rows.stride, rows.left, lane, WARP_LANES);
    }
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads(); // queries and keys have arrived for all
    Part part = no_keys();
    if (rows.left > 0) {
        float scores[1][TILE_KEYS / 8][4] = {}; // 16 × 64
        float sums[1][D / 8][4] = {};           // 16 × D
        score_tile(shared.queries, 0, tile.keys, scores);
        __syncwarp(); // all lanes are done with the keys
        const int late = rows.left - HALF_KEYS;
        copy_rows(tile.late_values, rows.v + (late > 0 ? HALF_KEYS * rows.stride : 0), rows.stride, late, lane, WARP_LANES);
        cp_async_commit();
        weigh_tile(scores, first_key, positions, scale, part);
        cp_async_wait<1>();
        __syncwarp(); // half of the values have arrived for all lanes
        add_values<0>(scores, tile.early_values, sums);
        cp_async_wait<0>();
        __syncwarp(); // the other half, too, and all lanes are done with the first
        add_values<HALF_KEYS>(scores, tile.late_values, sums);
        keep_values(sums, part);
    }
    tile.part.keep(part);
    __syncthreads();
}

// Merges four channels of a query's parts, upward: largest and sum go to `stats`, the values to their places in `values`.
DEVICE void merge_row(const Split& shared, int row, int channel, float2& stats, float* values) {
    float top = NONE;
    float weights = 0.f;
    float weighted[4] = {};
#pragma unroll
    for (int i = 0; i < GROUP_TILES; ++i) {
        const TilePart& part = shared.tiles[i].part;
        const float sum = part.sum[row];
        const float4 of_tile = reinterpret_cast<const float4&>(part.values[row][channel]);
        if (sum != 0.f) {
            const Shares shares = shares_of(top, part.largest[row]);
            top = shares.largest;
            weights = merged(weights, sum, shares);
            weighted[0] = merged(weighted[0], of_tile.x, shares);
            weighted[1] = merged(weighted[1], of_tile.y, shares);
            weighted[2] = merged(weighted[2], of_tile.z, shares);
            weighted[3] = merged(weighted[3], of_tile.w, shares);
        }
    }
    reinterpret_cast<float4&>(values[channel]) = {weighted[0], weighted[1], weighted[2], weighted[3]};
    if (channel == 0) {
        stats = {top, weights};
    }
}

// The largest of a value of the lanes up to the calling one.
DEVICE float largest_so_far(float value) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int lanes = 1; lanes < WARP_LANES; lanes *= 2) {
        const float before = __shfl_up_sync(FULL_WARP, value, lanes);
        value = lane < lanes ? value : fmaxf(value, before);
    }
    return value;
}

// Merges the parts of a query's groups, upward, divides, and stores the calling thread's channel, if it is below d. Largest
// scores are known of 32 groups at a time, a lane a group, and from them what each is multiplied by: so a group is one step
// of the sum and one of the value.
DEVICE void merge_splits(const float2* stats, const float* parts, int splits, bf16* out, int d) {
    const int lane = threadIdx.x % WARP_LANES;
    const int channel = threadIdx.x;
    float largest = NONE;
    float sum = 0.f;
    float value = 0.f;
    for (int first = 0; first < splits; first += WARP_LANES) {
        float2 part = {NONE, 0.f};
        if (first + lane < splits) {
            part = stats[first + lane];
        }
        float values[WARP_LANES];
#pragma unroll
        for (int i = 0; i < WARP_LANES; ++i) {
            const bool is_there = first + i < splits && channel < D;
            values[i] = is_there ? parts[int64(first + i) * D + channel] : 0.f;
        }
        const uint32 has_keys = __ballot_sync(FULL_WARP, part.y != 0.f);
        const float top = fmaxf(largest, largest_so_far(part.y != 0.f ? part.x : NONE));
        const float before = __shfl_up_sync(FULL_WARP, top, 1);
        const Shares own = shares_of(lane == 0 ? largest : before, part.x);
#pragma unroll
        for (int some = 0; some < WARP_LANES; some += MERGE_SPLITS) {
            if (first + some >= splits) {
                break;
            }
#pragma unroll
            for (int i = some; i < some + MERGE_SPLITS; ++i) {
                const float total_share = __shfl_sync(FULL_WARP, own.total, i);
                const float part_share = __shfl_sync(FULL_WARP, own.part, i);
                const float part_sum = __shfl_sync(FULL_WARP, part.y, i);
                if ((has_keys >> i & 1) != 0) {
                    const Shares shares = {0.f, total_share, part_share};
                    sum = merged(sum, part_sum, shares);
                    value = merged(value, values[i], shares);
                }
            }
        }
        largest = __shfl_sync(FULL_WARP, top, WARP_LANES - 1);
    }
    if (channel < d) {
        out[channel] = to_bf16(value / sum);
    }
}
