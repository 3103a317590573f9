// A block's queries over all the keys that any of them sees, which are read tile by tile.
#pragma once

#include "parts.cuh"

constexpr int PREFILL_WARPS = 4;
constexpr int PREFILL_ROWS = PREFILL_WARPS * QUERY_ROWS;
constexpr int PREFILL_THREADS = PREFILL_WARPS * WARP_LANES;

struct Prefill {
    HeadRows<PREFILL_ROWS> queries;
    KeyRing ring;
    Totals<PREFILL_THREADS> totals;
};

// A head's rows: at most PREFILL_ROWS queries, and keys and values; each row so many values after the one before.
struct Rows {
    const bf16* q;
    const bf16* k;
    const bf16* v;
    int query_stride;
    int key_stride;
    int queries;
    int keys;
};

// The first of the calling lane's two queries; the other is 8 further.
DEVICE int query_of_lane() {
    return threadIdx.x / WARP_LANES * QUERY_ROWS + threadIdx.x % WARP_LANES / 4;
}

// The lane's queries see keys up to their `positions`; out(i) is where the d channels of query i go. Every thread of the
// block calls it.
template <class Out>
DEVICE void attend(Prefill& shared, const Rows& p, const int (&positions)[2], float scale, Out out, int d) {
    const int tiles = (p.keys + TILE_KEYS - 1) / TILE_KEYS;
    const auto copy = [&](HeadRows<TILE_KEYS>& to, const bf16* rows, int tile) {
        const int64 from = int64(tile) * TILE_KEYS * p.key_stride;
        copy_rows(to, rows + from, p.key_stride, p.keys - tile * TILE_KEYS, threadIdx.x, PREFILL_THREADS);
    };
    copy_rows(shared.queries, p.q, p.query_stride, p.queries, threadIdx.x, PREFILL_THREADS);
    copy(shared.ring.keys(0), p.k, 0);
    cp_async_commit();
    copy(shared.ring.values(0), p.v, 0);
    cp_async_commit();

    const int row = threadIdx.x / WARP_LANES * QUERY_ROWS;
    Total total = no_total(shared.totals);
    Part group = no_keys();
    for (int tile = 0; tile < tiles; ++tile) {
        cp_async_wait<1>();
        __syncthreads(); // the keys have arrived for all, and all are done with the values before them
        if (tile + 1 < tiles) {
            copy(shared.ring.keys(tile + 1), p.k, tile + 1);
        }
        cp_async_commit();
        Part part;
        float scores[1][TILE_KEYS / 8][4] = {}; // 16 × 64
        score_tile(shared.queries, row, shared.ring.keys(tile), scores);
        weigh_tile(scores, tile * TILE_KEYS, positions, scale, part);
        cp_async_wait<1>();
        __syncthreads(); // the values have arrived for all, and all are done with their keys
        if (tile + 1 < tiles) {
            copy(shared.ring.values(tile + 1), p.v, tile + 1);
        }
        cp_async_commit();
        add_values(scores, shared.ring.values(tile), part);
        merge(group, part);
        if (tile % GROUP_TILES == GROUP_TILES - 1 || tile == tiles - 1) {
            merge(shared.totals, total, group);
            group = no_keys();
        }
    }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = query_of_lane() + 8 * half;
        if (query < p.queries) {
            store(shared.totals, total, half, out(query), d);
        }
    }
}
