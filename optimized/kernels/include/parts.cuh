// Where parts of attention wait to be merged: in shared memory, and from one launch to the next.
#pragma once

#include "attention.cuh"

// Each thread's own values of a total, beside those of its neighbours: so registers are left for the part at hand.
template <int THREADS>
struct Totals {
    float values[D / 8 * 4][THREADS];
};

// The rest of a total.
struct Total {
    float largest[2];
    float sum[2];
};

// A total of no keys; a thread touches its own values only.
template <int THREADS>
DEVICE Total no_total(Totals<THREADS>& totals) {
#pragma unroll
    for (int i = 0; i < D / 8 * 4; ++i) {
        totals.values[i][threadIdx.x] = 0.f;
    }
    return {{NONE, NONE}, {0.f, 0.f}};
}

// total = total and part. A part of no keys changes nothing.
template <int THREADS>
DEVICE void merge(Totals<THREADS>& totals, Total& total, const Part& part) {
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
                float& value = totals.values[4 * j + element][threadIdx.x];
                value = merged(value, part.values[j][element], shares);
            }
        }
    }
}

// Divides the total of one of the calling lane's two queries, and stores its first d channels.
template <int THREADS>
DEVICE void store(const Totals<THREADS>& totals, const Total& total, int half, bf16* out, int d) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
#pragma unroll
        for (int element = 2 * half; element < 2 * half + 2; ++element) {
            const int channel = 8 * j + lane % 4 * 2 + element % 2;
            if (channel < d) {
                out[channel] = to_bf16(totals.values[4 * j + element][threadIdx.x] / total.sum[half]);
            }
        }
    }
}

// The parts of a group's tiles, each a warp's, of 16 queries.
struct GroupParts {
    float largest[GROUP_TILES][QUERY_ROWS];
    float sum[GROUP_TILES][QUERY_ROWS];
    float values[GROUP_TILES][QUERY_ROWS][D];

    // Keeps the calling warp's part, of tile `tile`.
    __device__ __forceinline__ void keep(int tile, const Part& part) {
        const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = lane / 4 + 8 * half;
            if (lane % 4 == 0) {
                largest[tile][row] = part.largest[half];
                sum[tile][row] = part.sum[half];
            }
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                values[tile][row][8 * j + lane % 4 * 2] = part.values[j][2 * half];
                values[tile][row][8 * j + lane % 4 * 2 + 1] = part.values[j][2 * half + 1];
            }
        }
    }

    // Merges one channel of a query's parts, upward: largest and sum go to `stats`, the value to its place in `value`.
    __device__ __forceinline__ void merge_row(int row, int channel, float2& stats, float* value) const {
        float top = NONE;
        float weights = 0.f;
        float weighted = 0.f;
        for (int tile = 0; tile < GROUP_TILES; ++tile) {
            if (sum[tile][row] != 0.f) {
                const Shares shares = shares_of(top, largest[tile][row]);
                top = shares.largest;
                weights = merged(weights, sum[tile][row], shares);
                weighted = merged(weighted, values[tile][row][channel], shares);
            }
        }
        value[channel] = weighted;
        if (channel == 0) {
            stats = {top, weights};
        }
    }
};

// Merges the parts of a query's groups, upward, divides, and stores the calling thread's channel, if it is below d.
DEVICE void merge_splits(const float2* stats, const float* parts, int splits, bf16* out, int d) {
    const int channel = threadIdx.x;
    float largest = NONE;
    float sum = 0.f;
    float value = 0.f;
    for (int split = 0; split < splits; ++split) {
        const float2 part = stats[split];
        if (part.y != 0.f) {
            const Shares shares = shares_of(largest, part.x);
            largest = shares.largest;
            sum = merged(sum, part.y, shares);
            value = merged(value, parts[int64(split) * D + channel], shares);
        }
    }
    if (channel < d) {
        out[channel] = to_bf16(value / sum);
    }
}
