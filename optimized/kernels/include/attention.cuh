// Attention of 16 queries over a tile of keys, and how the tiles' results are put together.
//
// The order is part of the contract, so that a query's result does not depend on the kernel that computes it, nor on the
// queries beside it: keys are cut into tiles of TILE_KEYS and groups of GROUP_TILES tiles, anchored at key 0. Each tile is
// attended by itself; a group merges its tiles upward, and the result merges the groups upward.
#pragma once

#include "simt.cuh"

constexpr int TILE_KEYS = 64;
constexpr int GROUP_TILES = 4;
constexpr int GROUP_KEYS = GROUP_TILES * TILE_KEYS;
constexpr int QUERY_ROWS = 16;
constexpr float NONE = -1e30f;

// ROWS rows of a head in shared memory, padded so that eight rows' vectors at one channel lie in different banks.
template <int ROWS>
struct alignas(128) HeadRows {
    bf16 values[ROWS][D + 8];
};

constexpr int HEAD_ROW_BYTES = (D + 8) * sizeof(bf16);
constexpr int ROW_VECTORS = D / 8;

// Begins copying `rows` rows, `stride` values apart, by `threads` threads of which this is number `thread`; rows from
// `rows` on become 0.
template <int ROWS>
DEVICE void copy_rows(HeadRows<ROWS>& to, const bf16* from, int64 stride, int rows, int thread, int threads) {
    for (int i = thread; i < ROWS * ROW_VECTORS; i += threads) {
        const int row = i / ROW_VECTORS;
        const int column = i % ROW_VECTORS * 8;
        const bool inside = row < rows;
        cp_async16(&to.values[row][column], from + (inside ? row * stride + column : 0), inside ? 16 : 0);
    }
}

// Largest score, sum of weights and weighted sum of values, of some keys: of the queries l/4 and l/4 + 8 in lane l, their
// channels 8j + 2(l%4) and the next in values[j]. Scores are in base 2. Of no keys: NONE, 0, 0;
// of any, the sum is at least 1, or not a number.
struct Part {
    float largest[2];
    float sum[2];
    float values[D / 8][4];
};

DEVICE Part no_keys() {
    Part part;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        part.largest[half] = NONE;
        part.sum[half] = 0.f;
    }
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
#pragma unroll
        for (int element = 0; element < 4; ++element) {
            part.values[j][element] = 0.f;
        }
    }
    return part;
}

// By what a total and a part are multiplied when they are added.
struct Shares {
    float largest;
    float total;
    float part;
};

DEVICE Shares shares_of(float total, float part) {
    const float largest = fmaxf(total, part);
    return {largest, exp2f(total - largest), exp2f(part - largest)};
}

DEVICE float merged(float total, float part, const Shares& shares) {
    return fmaf(total, shares.total, part * shares.part);
}

// total = total and part. A part of no keys changes nothing.
DEVICE void merge(Part& total, const Part& part) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (part.sum[half] == 0.f) {
            continue;
        }
        const Shares shares = shares_of(total.largest[half], part.largest[half]);
        total.largest[half] = shares.largest;
        total.sum[half] = merged(total.sum[half], part.sum[half], shares);
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
#pragma unroll
            for (int element = 2 * half; element < 2 * half + 2; ++element) {
                total.values[j][element] = merged(total.values[j][element], part.values[j][element], shares);
            }
        }
    }
}

// Scores of 16 queries from `row` on against the tile's keys.
template <int ROWS>
DEVICE void score_tile(const HeadRows<ROWS>& queries, int row, const HeadRows<TILE_KEYS>& keys,
                       float (&scores)[1][TILE_KEYS / 8][4]) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int channel = 0; channel < D; channel += 16) {
        uint32 a[1][4];              // 16 × 16
        uint32 b[TILE_KEYS / 16][4]; // 16 × 64
        ldmatrix_x4(a, &queries.values[row + lane % 16][channel + lane / 16 * 8], 0);
        ldmatrix_x4(b, &keys.values[lane / 16 * 8 + lane % 8][channel + lane / 8 % 2 * 8], 16 * HEAD_ROW_BYTES);
        mma_bf16(scores, a, b);
    }
}

// The tile's scores become weights, 2^(score − largest), of keys up to each query's own position; the sums are unrounded.
DEVICE void weigh_tile(float (&scores)[1][TILE_KEYS / 8][4], int first_key, const int (&positions)[2], float scale, Part& part) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float largest = NONE;
#pragma unroll
        for (int j = 0; j < TILE_KEYS / 8; ++j) {
#pragma unroll
            for (int element = 2 * half; element < 2 * half + 2; ++element) {
                const int key = first_key + 8 * j + lane % 4 * 2 + element % 2;
                const float score = scores[0][j][element] * scale;
                scores[0][j][element] = key <= positions[half] ? score : NONE;
                largest = fmaxf(largest, scores[0][j][element]);
            }
        }
        largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(FULL_WARP, largest, 2));
        float sum = 0.f;
#pragma unroll
        for (int j = 0; j < TILE_KEYS / 8; ++j) {
#pragma unroll
            for (int element = 2 * half; element < 2 * half + 2; ++element) {
                const float score = scores[0][j][element];
                const float weight = score == NONE ? 0.f : exp2f(score - largest);
                scores[0][j][element] = weight;
                sum += weight;
            }
        }
        sum += __shfl_xor_sync(FULL_WARP, sum, 2);
        sum += __shfl_xor_sync(FULL_WARP, sum, 1);
        part.largest[half] = largest;
        part.sum[half] = sum;
    }
}

// Adds the values of the tile's keys from FIRST on, by their weights, rounded to bf16, to sums of those before them.
template <int FIRST, int ROWS>
DEVICE void add_values(const float (&weights)[1][TILE_KEYS / 8][4], const HeadRows<ROWS>& values, float (&sums)[1][D / 8][4]) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int key = 0; key < ROWS; key += 16) {
        const float(&low)[4] = weights[0][(FIRST + key) / 8];
        const float(&high)[4] = weights[0][(FIRST + key) / 8 + 1];
        const uint32 a[1][4] = {{pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]), pack_bf16(high[0], high[1]),
                                 pack_bf16(high[2], high[3])}}; // 16 × 16
        uint32 b[D / 16][4];                                    // 16 × D
        ldmatrix_x4_trans(b, &values.values[key + lane / 8 % 2 * 8 + lane % 8][lane / 16 * 8], 16 * sizeof(bf16));
        mma_bf16(sums, a, b);
    }
}

DEVICE void keep_values(const float (&sums)[1][D / 8][4], Part& part) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
#pragma unroll
        for (int element = 0; element < 4; ++element) {
            part.values[j][element] = sums[0][j][element];
        }
    }
}

// Takes the weighted sum of all of the tile's values.
DEVICE void add_values(const float (&weights)[1][TILE_KEYS / 8][4], const HeadRows<TILE_KEYS>& values, Part& part) {
    float sums[1][D / 8][4] = {}; // 16 × D
    add_values<0>(weights, values, sums);
    keep_values(sums, part);
}
