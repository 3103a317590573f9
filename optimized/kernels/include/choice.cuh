// The best of a row's blocks, whatever warps look at which of them.
#pragma once

#include "ordered.cuh"

constexpr int CHOOSE_WARPS = 8;
// Blocks of a lane that are looked at together.
constexpr int CHOOSE_BLOCKS = 4;
// What −∞ and ∞ are in order. A block of which no key is seen has −∞.
constexpr uint32 NOTHING = 0x007fffff;
constexpr uint32 INFINITE = 0xff800000;

// A block and its largest score, in order; a score of 0 is of none.
struct Best {
    uint32 score;
    int block;
};

// Blocks that are chosen whatever their scores: the last ones up to a token's own, and the first ones.
struct Forced {
    int local;
    int init;
};

// The best that each warp found, from the best down, a lane one.
struct Candidates {
    uint32 scores[CHOOSE_WARPS][WARP_LANES];
    int blocks[CHOOSE_WARPS][WARP_LANES];
};

// In order of choice: the larger first, of equals the lower.
DEVICE bool is_before(const Best& a, const Best& b) {
    return a.score > b.score || (a.score == b.score && a.block < b.block);
}

// The best `top_k` of all that a warp's lanes have, which are different blocks: one in each lane, from the best down. Those of
// which no key is seen are not among them.
template <int COUNT>
DEVICE Best best_of_warp(Best (&all)[COUNT], int top_k) {
    const int lane = threadIdx.x % WARP_LANES;
    Best kept = {0, -1};
    for (int slot = 0; slot < top_k; ++slot) {
        Best mine = all[0];
#pragma unroll
        for (int i = 1; i < COUNT; ++i) {
            mine = is_before(all[i], mine) ? all[i] : mine;
        }
        const uint32 score = __reduce_max_sync(FULL_WARP, mine.score);
        if (score <= NOTHING) {
            break;
        }
        const int block = __reduce_min_sync(FULL_WARP, mine.score == score ? mine.block : 0x7fffffff);
        if (lane == slot) {
            kept = {score, block};
        }
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            all[i].score = all[i].block == block ? 0 : all[i].score;
        }
    }
    return kept;
}

// The best of a row's blocks that are the calling warp's: every `warps`-th CHOOSE_BLOCKS·32 of those up to `own`.
DEVICE Best best_of_row(const float* m, const Forced& forced, int own, int warp, int warps, int top_k) {
    const int lane = threadIdx.x % WARP_LANES;
    constexpr int AT_ONCE = CHOOSE_BLOCKS * WARP_LANES;
    Best kept = {0, -1};
    for (int first = warp * AT_ONCE; first <= own; first += warps * AT_ONCE) {
        Best all[CHOOSE_BLOCKS + 1];
#pragma unroll
        for (int i = 0; i < CHOOSE_BLOCKS; ++i) {
            const int block = first + i * WARP_LANES + lane;
            const bool is_forced = block > own - forced.local || block < forced.init;
            const uint32 score = block <= own ? ordered(m[block] + 0.f) : 0;
            all[i] = {block <= own && is_forced ? INFINITE : score, block};
        }
        all[CHOOSE_BLOCKS] = kept;
        kept = best_of_warp(all, top_k);
    }
    return kept;
}
