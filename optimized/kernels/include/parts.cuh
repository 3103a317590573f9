// Totals of attention that wait in shared memory for more parts.
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

// Tiles of keys and their values by turns, three at a time: those of a tile, and the keys or the values that come next.
struct KeyRing {
    HeadRows<TILE_KEYS> rows[3];

    __device__ __forceinline__ HeadRows<TILE_KEYS>& keys(int tile) {
        return rows[2 * tile % 3];
    }
    __device__ __forceinline__ HeadRows<TILE_KEYS>& values(int tile) {
        return rows[(2 * tile + 1) % 3];
    }
};
