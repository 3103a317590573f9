//! The suite can fail: on kernels with a mistake in them it does, and says what was read instead of what.

use half::bf16;
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::kernel::table::{
    ATTENTION, BLOCK_SPARSE_ATTENTION, LINEAR_64_BF16, LINEAR_64_F32, LINEAR_128_F32, MOE_16, MOE_64, ROUTER,
};
use optimized::kernel::{Kernel, Sources};
use optimized::ops::attention::Cut;
use optimized::ops::linear::Tiling;
use optimized::tiles::Tiles;
use rayon::prelude::*;
use tests::device::emulated;

use super::fetch::{Extent, Fetch};
use super::{attention, block_sparse, experts, linear};

/// A kernel with a mistake.
struct Mistake {
    kernel: Kernel,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// What finds it, and what it has to say.
    found_by: fn(&Gpu) -> Result<(), String>,
    says: &'static str,
}

fn small(gpu: &Gpu) -> Result<(), String> {
    linear::demand::<bf16>(gpu, Tiling::Small, (9, 20, 65))
}

fn small_f32(gpu: &Gpu) -> Result<(), String> {
    linear::demand::<f32>(gpu, Tiling::Small, (70, 20, 65))
}

fn large(gpu: &Gpu) -> Result<(), String> {
    linear::demand::<f32>(gpu, Tiling::Large, (3, 140, 40))
}

fn few_rows(gpu: &Gpu) -> Result<(), String> {
    linear::demand::<f32>(gpu, Tiling::FewRows, (3, 20, 600))
}

fn logits(gpu: &Gpu) -> Result<(), String> {
    linear::demand_logits(gpu, (9, 5, 70))
}

fn expert(gpu: &Gpu, part: experts::Part, choice: experts::Choice, tiles: Tiles) -> Result<(), String> {
    experts::Case { part, choice, experts: 4 }.demand(gpu, tiles, (20, 24))
}

fn fetch(gpu: &Gpu, cut: Cut) -> Result<(), String> {
    attention::Case(Extent { heads: (4, 2), d: 16, n: 20, first: 300 }).demand(gpu, cut, 20)
}

fn up_few(gpu: &Gpu) -> Result<(), String> {
    expert(gpu, experts::Part::Up, experts::Choice::All, Tiles::Few)
}

fn gate_many(gpu: &Gpu) -> Result<(), String> {
    expert(gpu, experts::Part::Gate, experts::Choice::Uneven, Tiles::Many)
}

fn down_few(gpu: &Gpu) -> Result<(), String> {
    expert(gpu, experts::Part::Down, experts::Choice::Uneven, Tiles::Few)
}

fn down_many(gpu: &Gpu) -> Result<(), String> {
    expert(gpu, experts::Part::Down, experts::Choice::All, Tiles::Many)
}

fn combine(gpu: &Gpu) -> Result<(), String> {
    expert(gpu, experts::Part::Combine, experts::Choice::All, Tiles::Few)
}

fn by_queries(gpu: &Gpu) -> Result<(), String> {
    fetch(gpu, Cut::Queries)
}

fn by_keys(gpu: &Gpu) -> Result<(), String> {
    fetch(gpu, Cut::Keys)
}

fn fetch_of_blocks(gpu: &Gpu, cut: Cut) -> Result<(), String> {
    let extent = Extent { heads: (4, 2), d: 16, n: 20, first: 300 };
    block_sparse::Case { extent, block: 24, top_k: 4, choices: 2 }.demand(gpu, cut, 20)
}

fn of_blocks_by_queries(gpu: &Gpu) -> Result<(), String> {
    fetch_of_blocks(gpu, Cut::Queries)
}

fn of_blocks_by_keys(gpu: &Gpu) -> Result<(), String> {
    fetch_of_blocks(gpu, Cut::Keys)
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        kernel: LINEAR_64_BF16,
        file: "linear.cuh",
        from: "row_of(p.x, first_row + i, p.n, p.ldx, p.k)",
        to: "row_of(p.x, first_row + i + 1, p.n, p.ldx, p.k)",
        found_by: small,
        says: "y[0, 0] is w[0, 0]·x[1, 0], not w[0, 0]·x[0, 0]",
    },
    Mistake {
        kernel: LINEAR_64_F32,
        file: "linear.cuh",
        from: "row_of(p.x, first_row + i, p.n, p.ldx, p.k)",
        to: "row_of(p.x, max(first_row - 1, 0) + i, p.n, p.ldx, p.k)",
        found_by: small_f32,
        says: "y[64, 0] is x[63, 63]·w[0, 63], not x[64, 64]·w[0, 64]",
    },
    Mistake {
        kernel: LINEAR_64_F32,
        file: "linear.cuh",
        from: "const float first = col < p.m ? finished(sums[i][j][2 * half], col) : 0.f;",
        to: "const float first = col < p.m ? finished(sums[i][j][2 * half + 1], col) : 0.f;",
        found_by: small_f32,
        says: "y[0, 0] is x[0, 0]·w[1, 0], not x[0, 0]·w[0, 0]",
    },
    Mistake {
        kernel: LINEAR_64_F32,
        file: "gemm.cuh",
        from: "const int tiles = (k + K_TILE - 1) / K_TILE;",
        to: "const int tiles = k / K_TILE;",
        found_by: small_f32,
        says: "y[64, 0] is nothing, not x[64, 64]·w[0, 64]",
    },
    Mistake {
        kernel: LINEAR_128_F32,
        file: "gemm.cuh",
        from: "panel.vector(row + of_lane, 2 * step + lane / 8 % 2)",
        to: "panel.vector(row + of_lane, 2 * step + 1 - lane / 8 % 2)",
        found_by: large,
        says: "y[0, 0] is w[8, 8]·x[0, 8], not w[0, 0]·x[0, 0]",
    },
    Mistake {
        kernel: LINEAR_64_F32,
        file: "linear.cuh",
        from: "for (int chunk = 0; chunk < chunks; ++chunk) {",
        to: "for (int chunk = 1; chunk < chunks; ++chunk) {",
        found_by: few_rows,
        says: "y[0, 0] is nothing, not w[0, 0]·x[0, 0]",
    },
    Mistake {
        kernel: LINEAR_64_F32,
        file: "linear.cuh",
        from: "const WarpTiles own = {warp, warps, (p.k + K_TILE - 1) / K_TILE};",
        to: "const WarpTiles own = {warp, warps, p.k / K_TILE};",
        found_by: few_rows,
        says: "y[0, 19] is nothing, not w[19, 576]·x[0, 576]",
    },
    Mistake {
        kernel: ROUTER,
        file: "router.cu",
        from: "int64(min(expert + e, experts - 1)) * ldg",
        to: "int64(max(expert + e - 1, 0)) * ldg",
        found_by: logits,
        says: "y[0, 1] is x[0, 0]·w[0, 0], not x[0, 0]·w[1, 0]",
    },
    Mistake {
        kernel: ROUTER,
        file: "router.cu",
        from: "if (base + step * WARP_LANES < d) {",
        to: "if (base + step * WARP_LANES < d / WARP_LANES * WARP_LANES) {",
        found_by: logits,
        says: "y[8, 0] is nothing, not x[8, 64]·w[0, 64]",
    },
    Mistake {
        kernel: MOE_16,
        file: "moe.cu",
        from: "const int64 of_expert = int64(tile.x) * 2 * intermediate;",
        to: "const int64 of_expert = int64(tile.x) * intermediate;",
        found_by: up_few,
        says: "y[0, 37] is [0.73046875, 0.73046875], a mixture, not w[37, 13]·x[0, 13]",
    },
    Mistake {
        kernel: MOE_64,
        file: "gate_up.cuh",
        from: "const bool is_up = j / 8 % 2 != 0;",
        to: "const bool is_up = j / 8 % 2 == 0;",
        found_by: gate_many,
        says: "y[0, 0] is [0.73046875, 0.73046875], a mixture, not w[0, 0]·x[0, 0]",
    },
    Mistake {
        kernel: MOE_64,
        file: "moe.cu",
        from: "Row{x + int64(order[tile.y + i] / k) * ldx, h}",
        to: "Row{x + int64(order[tile.y] / k) * ldx, h}",
        found_by: gate_many,
        says: "y[1, 0] is w[0, 0]·x[0, 0], not w[0, 0]·x[1, 0]",
    },
    Mistake {
        kernel: MOE_16,
        file: "moe.cu",
        from: "const int64 of_expert = int64(tile.x) * h;",
        to: "const int64 of_expert = int64(tile.x == 0 ? 0 : tile.x - 1) * h;",
        found_by: down_few,
        says: "y[0, 25] is w[0, 0]·x[0, 0], not w[25, 1]·x[0, 1]",
    },
    Mistake {
        kernel: MOE_64,
        file: "moe.cu",
        from: "outputs + int64(order[tile.y + row]) * ldh",
        to: "outputs + int64(order[tile.y + (row ^ 1) % tile.z]) * ldh",
        found_by: down_many,
        says: "y[0, 0] is w[0, 0]·x[1, 0], not w[0, 0]·x[0, 0]",
    },
    Mistake {
        kernel: MOE_16,
        file: "moe.cu",
        from: "vectors(outputs + (token * k + slot) * ldh)[i]",
        to: "vectors(outputs + token * k * ldh)[i]",
        found_by: combine,
        says: "y[0, 0] is w[16, 0]·x[0, 0], not w[0, 0]·x[0, 0]",
    },
    Mistake {
        kernel: ATTENTION[0],
        file: "attention.cu",
        from: "const int64 of_group = int64(head / (heads / groups)) * D;",
        to: "const int64 of_group = int64(head % groups) * D;",
        found_by: by_queries,
        says: "o[0, 1, 0] is v[0, 1, 0], not v[0, 0, 0]",
    },
    Mistake {
        kernel: ATTENTION[0],
        file: "attention.cuh",
        from: "values.values[key + lane / 8 % 2 * 8 + lane % 8]",
        to: "values.values[key + (1 - lane / 8 % 2) * 8 + lane % 8]",
        found_by: by_queries,
        says: "o[0, 0, 0] is v[292, 0, 0], not v[300, 0, 0]",
    },
    Mistake {
        kernel: ATTENTION[0],
        file: "attention.cuh",
        from: "key <= positions[half] ? score : NONE",
        to: "key < positions[half] ? score : NONE",
        found_by: by_keys,
        says: "o[0, 0, 0] is [1.0, 113.5], a mixture, not v[300, 0, 0]",
    },
    Mistake {
        kernel: ATTENTION[0],
        file: "split.cuh",
        from: "for (int first = 0; first < splits; first += WARP_LANES) {",
        to: "for (int first = 1; first < splits; first += WARP_LANES) {",
        found_by: by_keys,
        says: "o[0, 1, 0] is v[256, 0, 0], not v[0, 0, 0]",
    },
    Mistake {
        kernel: ATTENTION[0],
        file: "attention.cuh",
        from: "channel < D; channel += 16",
        to: "channel < D - 16; channel += 16",
        found_by: by_queries,
        says: "o[0, 0, 0] is [96.5, 75.5], a mixture, not v[300, 0, 0]",
    },
    Mistake {
        kernel: BLOCK_SPARSE_ATTENTION[0],
        file: "block_sparse_attention.cu",
        from: "int64(token) * choices + group % choices",
        to: "int64(token) * choices",
        found_by: of_blocks_by_queries,
        // The mean of 103 and 199, which agree with 231 in as many bits.
        says: "o[0, 2, 0] is v[151, 1, 0], not v[231, 1, 0]",
    },
    Mistake {
        kernel: BLOCK_SPARSE_ATTENTION[0],
        file: "block_sparse_attention.cu",
        from: ": first(block * keys + tile * TILE_KEYS)",
        to: ": first(block * TILE_KEYS + tile * TILE_KEYS)",
        found_by: of_blocks_by_keys,
        says: "o[0, 0, 0] is v[12, 0, 0], not v[300, 0, 0]",
    },
    Mistake {
        kernel: BLOCK_SPARSE_ATTENTION[0],
        file: "block_sparse_attention.cu",
        from: "const int64 from = left > 0 ? keys.first * stride + int64(group) * D : 0;",
        to: "const int64 from = left > 0 ? keys.first * stride : 0;",
        found_by: of_blocks_by_keys,
        says: "o[0, 2, 0] is v[231, 0, 0], not v[231, 1, 0]",
    },
    Mistake {
        kernel: BLOCK_SPARSE_ATTENTION[0],
        file: "block_sparse_attention.cu",
        from: "shared.choosers[below] = choosers;",
        to: "shared.choosers[below] = choosers & ~1;",
        found_by: of_blocks_by_queries,
        // Some tokens get no block, and divide nothing by nothing.
        says: "o[0, 0, 0] is not a number, not v[300, 0, 0]",
    },
];

#[test]
fn a_mistake_is_found_and_what_was_read_is_named() {
    let missed: Vec<String> = MISTAKES.par_iter().filter_map(Mistake::missed).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

impl Mistake {
    fn missed(&self) -> Option<String> {
        let gpu = emulated(Form::Fast);
        let sources = Sources::embedded().edit(self.file, self.from, self.to).unwrap_or_else(|error| panic!("{error}"));
        gpu.replace(&self.kernel, &sources).unwrap_or_else(|error| panic!("{error}"));
        match (self.found_by)(&gpu) {
            Err(said) if said.contains(self.says) => None,
            Err(said) => Some(format!("`{}` is found, but {said}", self.to)),
            Ok(()) => Some(format!("`{}` is not found", self.to)),
        }
    }
}
