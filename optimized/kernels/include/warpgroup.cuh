// A tile of a product by warpgroups, whose tensor cores multiply while the warps copy: of Hopper only, the same sums.
#pragma once

#include "weights.cuh"

#ifndef WARPGROUPS
#define WARPGROUPS 0
#endif

// As `Tile`, where every four warps are a warpgroup that computes 64 rows and all 128 columns. One panel of each is multiplied
// while the next ones arrive, so what takes turns does so by three.
template <class Weights, int ROWS, int COLS, int DOWN, int ACROSS, int DEPTH>
struct WarpgroupTile : Tile<Weights, ROWS, COLS, DOWN, ACROSS, DEPTH, 3> {
    static_assert(ROWS == 16 * DOWN && DOWN % 4 == 0 && COLS == 128 && ACROSS == 1, "a warpgroup computes 64 × 128");
    using Base = Tile<Weights, ROWS, COLS, DOWN, ACROSS, DEPTH, 3>;
    using typename Base::Shared;
    using typename Base::Sums;
    static constexpr int CHUNK_TILES = K_CHUNK / K_TILE;
    // One stage is multiplied, and the one before may still be, in another warpgroup.
    static constexpr int AHEAD = DEPTH - 2;

    // Begins the product of a panel's rows of the calling warpgroup and all of another's.
    static __device__ __forceinline__ void begin_product(Sums& chunk, const Panel<ROWS>& left, const Panel<COLS>& right) {
        const int row = Base::warp_row() / 64 * 64;
        warpgroup_begin(chunk);
#pragma unroll
        for (int step = 0; step < K_TILE / K_STEP; ++step) {
            warpgroup_multiply(chunk, &left.values[row][step * K_STEP], &right.values[0][step * K_STEP]);
        }
        warpgroup_commit();
    }

    // As `Tile::multiply`.
    template <class XRow, class WRow>
    static __device__ __forceinline__ void multiply(Shared& shared, XRow x_row, WRow w_row, int k, Sums& total) {
        const typename Base::XPanels x(threadIdx.x, x_row);
        typename Base::WPanels w(threadIdx.x, w_row);
        const int tiles = (k + K_TILE - 1) / K_TILE;
        const auto begin = [&](int tile) {
            if (tile < tiles) {
                x.begin(shared.x, tile, tile * K_TILE);
                w.begin(shared.w, tile, tile * K_TILE);
            }
            cp_async_commit();
        };
        const auto look_ahead = [&](int tile) { w.look_ahead(tile * K_TILE); };
        begin_tiles<AHEAD>(begin, look_ahead);
        Sums chunk = {};
        for (int first = 0; first < tiles; first += CHUNK_TILES) {
            const int end = min(first + CHUNK_TILES, tiles);
            for (int tile = first; tile < end; ++tile) {
                cp_async_wait<AHEAD - 1>();
                const Panel<ROWS>& left = x.arrived(shared.x, tile);
                const Panel<COLS>& right = w.arrived(shared.w, tile);
                fence_for_warpgroups();
                __syncthreads(); // the tile has arrived for all, and all are done with the one two before
                begin_product(chunk, left, right);
                begin(tile + AHEAD);
                look_ahead(tile + LOOK_AHEAD);
                warpgroup_wait<1>(); // the tile before is multiplied
            }
            warpgroup_finish(chunk);
            close_chunk(total, chunk);
        }
    }
};

// The tile of a kernel's constants.
#if WARPGROUPS
using Block = WarpgroupTile<Weights, TILE_ROWS, TILE_COLS, WARPS_DOWN, WARPS_ACROSS, STAGES>;
#else
using Block = Tile<Weights, TILE_ROWS, TILE_COLS, WARPS_DOWN, WARPS_ACROSS, STAGES>;
#endif
