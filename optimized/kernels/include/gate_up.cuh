// The first half of a gated feed-forward network: gate and up projections of a column are one thread's, and so is what the
// activation makes of them.
#pragma once

#include "warpgroup.cuh"

// SwiGLU where the limit is 0, and SwiGLU-OAI elsewhere.
struct Activation {
    float alpha;
    float limit;
    float beta;
    // What the gate is clamped to from below: −limit, or −∞.
    float lowest;
};

// NaN passes every clamp.
DEVICE float activate(const Activation& p, float gate, float up) {
    if (p.limit == 0.f) {
        return gate / (1.f + expf(-gate)) * up;
    }
    const float low_gate = gate > p.limit ? p.limit : gate;
    const float clamped_gate = low_gate < p.lowest ? p.lowest : low_gate;
    const float low_up = up > p.limit ? p.limit : up;
    const float clamped_up = low_up < -p.limit ? -p.limit : low_up;
    return (clamped_up + p.beta) * (clamped_gate * (1.f / (1.f + expf(-p.alpha * clamped_gate))));
}

// Row j of a tile of w, which has from row `top` on the gate's rows and the up projection's below them: eight from `first` on
// of the gate's, and the same of the up projection's, alternate.
DEVICE Weights::Row gate_up_row(const Weight& w, int64 top, int j, int first, int intermediate, int k) {
    const int col = first + j / 16 * 8 + j % 8;
    const bool is_up = j / 8 % 2 != 0;
    return col < intermediate ? Weights::row(w, top + (is_up ? intermediate + col : col), k) : Weights::row(w, 0, 0);
}

// Stores what the activation makes of one of the calling thread's rows, in columns from `first` on; padding becomes 0.
template <class Block>
DEVICE void store_activated(const typename Block::Sums& sums, int i, int half, const Activation& p, int first, bf16* out, int ld) {
    const int lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int j = 0; j < Block::WARP_COLS / 16; ++j) {
        const int col = first + Block::warp_col() / 2 + 8 * j + lane % 4 * 2;
        float activated[2];
#pragma unroll
        for (int element = 0; element < 2; ++element) {
            activated[element] = activate(p, sums[i][2 * j][2 * half + element], sums[i][2 * j + 1][2 * half + element]);
        }
        if (col < ld) {
            *reinterpret_cast<uint32*>(out + col) = pack_bf16(activated[0], activated[1]);
        }
    }
}
