// MoE: adds up what a token's experts say, each by its weight, and what the expert that all share says.
//
// ```text
// yᵢ = Σₛ ρ(wᵢₛ·eᵢₛ)        over the k experts that token i chose        zᵢ = ρ(ς·yᵢ) + hᵢ
// ```
//
// with eᵢₛ = W₂·ρ(activation(W₁·xᵢ, W₃·xᵢ)) of the expert that is the s-th choice of token i; h, if there is one, from elsewhere.
//
// - Launch: moe_count and moe_place: E blocks of PLACE_THREADS threads, block e owns expert e; or instead of both
//   moe_place_few, one block of PLACE_THREADS threads, thread i owns choice i. moe_gate_up: tiles × ⌈2I/TILE_COLS⌉ blocks,
//   moe_down: tiles × ⌈H/TILE_COLS⌉, of 32·WARPS_DOWN·WARPS_ACROSS threads, where tiles = ⌊n·k/TILE_ROWS⌋ + E suffices;
//   block (t, j) owns rows of tile t, columns from j on. moe_combine: n × ⌈ldh/VECTOR/PLACE_THREADS⌉ blocks of
//   PLACE_THREADS threads, a vector each.
// - Requires: K1 chosen holds n rows of ldk, of which k are experts: E from first_expert on are here, others on other
//   ranks; K2 counts holds E, order n·k, tiles one int4 for each tile and one more; K3 x, hidden, outputs, y, h and
//   z have rows of ldx, ldi, ldh, ldh, ldh, ldh values, multiples of 8, 16-byte aligned, w13 E·2I rows of H values and w2 E·H
//   of I, as `linear`'s K8 has them; K4 hidden and outputs hold n·k rows, and nothing that is written overlaps anything; K5
//   shared memory: sizeof(Placing) for moe_place, sizeof(PlacingFew) for moe_place_few, sizeof(Block::Shared) for
//   moe_gate_up and moe_down; K6 all entries are of kernels of one TILE_ROWS; K7 moe_combine is given chosen where experts are on other ranks, whose outputs it leaves out;
//   K9 n·k ≤ PLACE_THREADS in moe_place_few; K10 where WARPGROUPS = 1, a Hopper GPU.
// - Bytes: of an expert that is chosen, all rows of w13 and w2, as many as `linear` reads of a row: where WEIGHTS = 8, half.
// - Precision: bf16 products summed as gemm.cuh says; the activation f32, rounded once to hidden; outputs rounded to bf16;
//   combined in f32, fused, in the order of choice, and rounded once, R2: there ρ is the identity; R3 at ς·y and R4 at z
//   to bf16.

#include "gate_up.cuh"

// How often each expert is chosen.
extern "C" __global__ void __launch_bounds__(PLACE_THREADS)
moe_count(const int* __restrict__ chosen, int* __restrict__ counts, int n, int k, int ldk, int first_expert) {
    const int expert = first_expert + blockIdx.x;
    int count = 0;
    for (int base = 0; base < n * k; base += PLACE_THREADS) {
        const int i = base + threadIdx.x;
        const bool is_mine = i < n * k && chosen[int64(i / k) * ldk + i % k] == expert;
        count += __syncthreads_count(is_mine);
    }
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = count;
    }
}

struct Placing {
    int warps[PLACE_THREADS / WARP_LANES];
};

// The choices i·k + s in the order of experts, then of tokens; and the tiles of the experts' rows: {expert, first place in the
// order, rows, 0}. The first entry of `tiles` is their number.
extern "C" __global__ void __launch_bounds__(PLACE_THREADS)
moe_place(const int* __restrict__ chosen, const int* __restrict__ counts, int* __restrict__ order, int4* __restrict__ tiles,
          int n, int k, int ldk, int first_expert) {
    SHARED_MEMORY(Placing, shared);
    const int expert = blockIdx.x;
    const int warp = threadIdx.x / WARP_LANES;
    const int lane = threadIdx.x % WARP_LANES;
    int first = 0;
    int first_tile = 1;
    for (int e = 0; e < expert; ++e) {
        first += counts[e];
        first_tile += (counts[e] + TILE_ROWS - 1) / TILE_ROWS;
    }
    const int mine = counts[expert];
    const int my_tiles = (mine + TILE_ROWS - 1) / TILE_ROWS;
    for (int tile = threadIdx.x; tile < my_tiles; tile += PLACE_THREADS) {
        tiles[first_tile + tile] = {expert, first + tile * TILE_ROWS, min(TILE_ROWS, mine - tile * TILE_ROWS), 0};
    }
    const bool is_last = expert == int(gridDim.x) - 1;
    if (is_last && threadIdx.x == 0) {
        tiles[0] = {first_tile + my_tiles - 1, 0, 0, 0};
    }

    for (int base = 0; base < n * k; base += PLACE_THREADS) {
        const int i = base + threadIdx.x;
        const bool is_mine = i < n * k && chosen[int64(i / k) * ldk + i % k] == first_expert + expert;
        const uint32 votes = __ballot_sync(FULL_WARP, is_mine);
        if (lane == 0) {
            shared.warps[warp] = __popc(votes);
        }
        __syncthreads();
        int before = 0;
        int all = 0;
        for (int w = 0; w < PLACE_THREADS / WARP_LANES; ++w) {
            before += w < warp ? shared.warps[w] : 0;
            all += shared.warps[w];
        }
        if (is_mine) {
            order[first + before + __popc(votes & ((1u << lane) - 1))] = i;
        }
        first += all;
        __syncthreads(); // `warps` may be written again
    }
}

// Whether 0 ≤ i < count.
DEVICE bool is_within(int i, int count) {
    return uint32(i) < uint32(count);
}

struct PlacingFew {
    int experts[PLACE_THREADS];
    int begins[PLACE_THREADS];
};

// What moe_count and moe_place do, of few choices: each finds its place among the others.
extern "C" __global__ void __launch_bounds__(PLACE_THREADS)
moe_place_few(const int* __restrict__ chosen, int* __restrict__ order, int4* __restrict__ tiles, int n, int k, int ldk,
              int first_expert, int experts) {
    SHARED_MEMORY(PlacingFew, shared);
    const int i = threadIdx.x;
    const int choices = n * k;
    const int expert = i < choices ? chosen[int64(i / k) * ldk + i % k] - first_expert : -1;
    const bool is_here = is_within(expert, experts);
    shared.experts[i] = is_here ? expert : -1;
    __syncthreads();
    int lower = 0;
    int earlier = 0;
    int all = 0;
    for (int j = 0; j < choices; ++j) {
        const int other = shared.experts[j];
        lower += other >= 0 && other < expert;
        earlier += other == expert && j < i;
        all += other == expert;
    }
    const bool begins = is_here && earlier % TILE_ROWS == 0;
    shared.begins[i] = begins;
    const int count = __syncthreads_count(begins);
    if (is_here) {
        order[lower + earlier] = i;
    }
    if (begins) {
        int tile = 1;
        for (int j = 0; j < choices; ++j) {
            const int other = shared.experts[j];
            tile += shared.begins[j] != 0 && (other < expert || (other == expert && j < i));
        }
        tiles[tile] = {expert, lower + earlier, min(TILE_ROWS, all - earlier), 0};
    }
    if (i == 0) {
        tiles[0] = {count, 0, 0, 0};
    }
}

// hidden = the activation of W₁·x and W₃·x of each choice.
extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
moe_gate_up(const bf16* __restrict__ x, Weight w13, const int* __restrict__ order,
            const int4* __restrict__ tiles, bf16* __restrict__ hidden, int k, int h, int intermediate, int ldx, int ldi, float alpha,
            float limit, float beta, float lowest) {
    SHARED_MEMORY(Block::Shared, shared);
    if (int(blockIdx.x) >= tiles[0].x) {
        return;
    }
    const int4 tile = tiles[blockIdx.x + 1];
    const int first_col = blockIdx.y * TILE_COLS / 2;
    const int64 of_expert = int64(tile.x) * 2 * intermediate;
    const auto x_row = [=](int i) -> Row {
        return i < tile.z ? Row{x + int64(order[tile.y + i] / k) * ldx, h} : Row{x, 0};
    };
    const auto w_row = [=](int j) { return gate_up_row(w13, of_expert, j, first_col, intermediate, h); };
    Block::Sums sums = {}; // WARP_ROWS × WARP_COLS
    Block::multiply(shared, x_row, w_row, h, sums);

    const Activation activation = {alpha, limit, beta, lowest};
    Block::for_each_row(tile.z, [&](int row, int i, int half) {
        store_activated<Block>(sums, i, half, activation, first_col, hidden + int64(order[tile.y + row]) * ldi, ldi);
    });
}

// outputs = W₂·hidden of each choice.
extern "C" __global__ void __launch_bounds__(Block::BLOCK_THREADS)
moe_down(const bf16* __restrict__ hidden, Weight w2, const int* __restrict__ order,
         const int4* __restrict__ tiles, bf16* __restrict__ outputs, int h, int intermediate, int ldi, int ldh) {
    SHARED_MEMORY(Block::Shared, shared);
    if (int(blockIdx.x) >= tiles[0].x) {
        return;
    }
    const int4 tile = tiles[blockIdx.x + 1];
    const int first_col = blockIdx.y * TILE_COLS;
    const int64 of_expert = int64(tile.x) * h;
    const auto x_row = [=](int i) -> Row {
        return i < tile.z ? Row{hidden + int64(order[tile.y + i]) * ldi, intermediate} : Row{hidden, 0};
    };
    const auto w_row = [=](int j) {
        const int row = first_col + j;
        return row < h ? Weights::row(w2, of_expert + row, intermediate) : Weights::row(w2, 0, 0);
    };
    Block::Sums sums = {}; // WARP_ROWS × WARP_COLS
    Block::multiply(shared, x_row, w_row, intermediate, sums);

    const int lane = threadIdx.x % WARP_LANES;
    Block::for_each_row(tile.z, [&](int row, int i, int half) {
        bf16* const out = outputs + int64(order[tile.y + row]) * ldh;
#pragma unroll
        for (int j = 0; j < Block::WARP_COLS / 8; ++j) {
            const int col = first_col + Block::warp_col() + 8 * j + lane % 4 * 2;
            if (col < ldh) {
                *reinterpret_cast<uint32*>(out + col) = pack_bf16(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
        }
    });
}

// Outputs that are on their way at once.
constexpr int SLOTS = 8;

// y = Σ w·outputs over a token's choices; z = scale·y + h, if there is an h.
extern "C" __global__ void __launch_bounds__(PLACE_THREADS)
moe_combine(const bf16* __restrict__ outputs, const float* __restrict__ w, const int* __restrict__ chosen,
            const bf16* __restrict__ h, bf16* __restrict__ y, bf16* __restrict__ z, int k, int ldh, int ldk, int ldc,
            int first_expert, int experts, float scale) {
    const int64 token = blockIdx.x;
    const int i = blockIdx.y * PLACE_THREADS + threadIdx.x;
    if (i >= ldh / VECTOR) {
        return;
    }
    const uint4 said = h != nullptr ? vectors(h + token * ldh)[i] : uint4{};
    Floats8 sum = {};
    for (int first = 0; first < k; first += SLOTS) {
        uint4 of_slots[SLOTS];
        bool count[SLOTS];
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            const int slot = first + s;
            count[s] = slot < k && (chosen == nullptr || is_within(chosen[token * ldc + slot] - first_expert, experts));
            of_slots[s] = count[s] ? vectors(outputs + (token * k + slot) * ldh)[i] : uint4{};
        }
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            if (count[s]) {
                const float weight = w[token * ldk + first + s];
                const Floats8 output = unpack(of_slots[s]);
#pragma unroll
                for (int j = 0; j < VECTOR; ++j) {
                    sum.values[j] = fmaf(weight, output.values[j], sum.values[j]);
                }
            }
        }
    }
    const uint4 routed = pack(sum); // R2
    vectors(y + token * ldh)[i] = routed;
    if (h != nullptr) {
        Floats8 all = unpack(said);
        const Floats8 stored = unpack(routed);
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            all.values[j] += to_float(to_bf16(scale * stored.values[j])); // R3
        }
        vectors(z + token * ldh)[i] = pack(all); // R4
    }
}
