//! Launches `kernels/indexer.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Blocks, Indexer, MsaSelect, RoundingContract, Semantics, require};

use super::attention::head_rows_bytes;
use super::{HeadLayout, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::{
    INDEXER_CHOOSE_BLOCKS as CHOOSE_BLOCKS, INDEXER_CHOOSE_WARPS as CHOOSE_WARPS, INDEXER_FEW_WARPS as FEW_WARPS,
    INDEXER_SPANS as SPANS, INDEXER_WARPS as WARPS, QUERY_ROWS, TILE_KEYS, WARP_LANES,
};
use crate::kernel::table::INDEXER;
use crate::tensor::Matrix;

/// Rows of m of a block of `indexer_scores`; up to so many rows are scored by `indexer_few_rows`.
const ROWS: usize = WARPS * QUERY_ROWS;
/// Blocks that a warp's lanes keep.
const MOST_CHOSEN: usize = WARP_LANES;

/// What an indexer says of n tokens.
#[derive(Debug)]
pub struct Indexed {
    /// m \[n·G, B\], or \[n, B\] for all groups alike: the largest score of each block of keys.
    pub maxima: Matrix<f32>,
    /// C \[n·G, min(K, B)\], or \[n, …\]: the blocks chosen, from the largest down; −1 where there is no other.
    pub chosen: Matrix<i32>,
}

/// m and C of q \[n, G·D\], whose tokens follow `first` others, and the keys of all of them, of one head.
///
/// C1 to C5: the reference's. K1: q is as wide as its padded heads, which share one key head, keys reach to the last query,
/// and sizes are below 2³¹. K4: K is at most 32.
pub fn indexer(
    gpu: &Gpu,
    layout: &HeadLayout,
    (blocks, select): (&Blocks, MsaSelect),
    q: &Matrix<bf16>,
    first: usize,
    keys: &Matrix<bf16>,
) -> Result<Indexed, Error> {
    let (n, width) = q.dim();
    let expected = layout.heads() * layout.padded();
    require(width == expected, "indexer K1", "cols(q)", width, format!("{} heads", layout.heads()))?;
    let (positions, wide) = keys.dim();
    require(wide == layout.padded(), "indexer K1", "cols(k)", wide, format!("one head of {}", layout.padded()))?;
    require(first + n <= positions, "indexer K1", "positions", first + n, format!("at most {positions}"))?;
    require(blocks.top_k <= MOST_CHOSEN, "indexer K4", "K", blocks.top_k, format!("at most {MOST_CHOSEN}"))?;
    let (heads, d) = (layout.heads(), layout.head_dim());
    let p = Indexer::under(&RoundingContract::PARITY, &Semantics::RELEASED, (heads, heads), d, *blocks);
    p.check((n, heads * d), (first + n, d))?;
    let (rows, all) = (n * layout.heads(), (first + n).div_ceil(blocks.size));
    let launch = Launch { gpu, kernel: INDEXER[layout.variant()], heads: layout.heads(), first };
    let mut maxima = gpu.output((rows, all))?;
    launch.scores(layout, blocks, q, keys, &mut maxima)?;
    if select == MsaSelect::HeadMax {
        maxima = launch.merged(&maxima)?;
    }
    let mut chosen = gpu.output((maxima.dim().0, blocks.top_k.min(all)))?;
    launch.choose(blocks, n, &maxima, &mut chosen)?;
    Ok(Indexed { maxima, chosen })
}

/// The kernel, for tokens that follow `first` others.
struct Launch<'a> {
    gpu: &'a Gpu,
    kernel: Kernel,
    heads: usize,
    first: usize,
}

impl Launch<'_> {
    fn scores(
        &self,
        layout: &HeadLayout,
        blocks: &Blocks,
        q: &Matrix<bf16>,
        keys: &Matrix<bf16>,
        maxima: &mut Matrix<f32>,
    ) -> Result<(), Error> {
        let (rows, all) = maxima.dim();
        let sizes = [rows / self.heads, self.first, self.heads, blocks.size, all, maxima.ld()];
        let arguments = narrow(&sizes)?;
        let few = rows <= ROWS;
        let entry = if few { "indexer_few_rows" } else { "indexer_scores" };
        let in_a_span = (TILE_KEYS / blocks.size).max(1);
        let spans = match (few, blocks.size <= TILE_KEYS) {
            (true, true) => FEW_WARPS,
            (true, false) => 1,
            (false, _) => SPANS,
        };
        let padded = layout.padded();
        let (rows_of_block, threads) =
            if few { (QUERY_ROWS, FEW_WARPS * WARP_LANES) } else { (ROWS, WARPS * WARP_LANES) };
        let blocks = (count(rows.div_ceil(rows_of_block)), count(all.div_ceil(in_a_span * spans)));
        let bytes = if few { few_bytes(padded) } else { shared_bytes(padded) };
        let grid = self.gpu.with_shared("indexer K5", Grid { blocks, threads: count(threads) }, bytes)?;
        let function = self.gpu.function(&self.kernel, entry)?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(q.data()).arg(keys.data()).arg(maxima.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: K1 by C1, C2 and `Matrix`; K2 because `qk_norm_rope` writes them so; K3 because m was just allocated; K5 by
        // the grid; K6 by C3.
        let done = unsafe { launch.launch(grid) };
        self.gpu.outcome(done, || format!("{} {entry}", self.kernel.label()))?;
        Ok(())
    }

    fn merged(&self, maxima: &Matrix<f32>) -> Result<Matrix<f32>, Error> {
        let (rows, all) = maxima.dim();
        let n = rows / self.heads;
        let mut merged = self.gpu.output((n, all))?;
        let arguments = narrow(&[self.heads, all, maxima.ld()])?;
        let grid =
            Grid { blocks: (count(n), count(all.div_ceil(WARPS * WARP_LANES))), threads: count(WARPS * WARP_LANES) };
        let function = self.gpu.function(&self.kernel, "indexer_merge")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(maxima.data()).arg(merged.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: K3 by the launch of `indexer_scores`, and because what is merged was just allocated.
        let done = unsafe { launch.launch(grid.into()) };
        self.gpu.outcome(done, || format!("{} indexer_merge", self.kernel.label()))?;
        Ok(merged)
    }

    fn choose(&self, blocks: &Blocks, n: usize, maxima: &Matrix<f32>, chosen: &mut Matrix<i32>) -> Result<(), Error> {
        let (rows, top_k) = chosen.dim();
        let forced = [blocks.local, blocks.init].map(|forced| forced.min(maxima.dim().1));
        let sizes = [self.first, rows / n, blocks.size, top_k, forced[0], forced[1], maxima.ld(), chosen.ld()];
        let arguments = narrow(&sizes)?;
        let warps = maxima.dim().1.div_ceil(CHOOSE_BLOCKS * WARP_LANES).min(CHOOSE_WARPS);
        let grid = Grid { blocks: (count(rows), 1), threads: count(warps * WARP_LANES) };
        let grid = self.gpu.with_shared("indexer K5", grid, candidates_bytes())?;
        let function = self.gpu.function(&self.kernel, "indexer_choose")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(maxima.data()).arg(chosen.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: K3 by the launch of `indexer_scores`; K4 by C3 and because C was just allocated; K6 by C3.
        let done = unsafe { launch.launch(grid) };
        self.gpu.outcome(done, || format!("{} indexer_choose", self.kernel.label()))?;
        Ok(())
    }
}

/// sizeof(Scores): shared memory of a block of `indexer_scores`.
pub fn shared_bytes(padded: usize) -> u32 {
    count(head_rows_bytes(ROWS, padded) + 2 * head_rows_bytes(TILE_KEYS, padded))
}

/// sizeof(FewScores): shared memory of a block of `indexer_few_rows`.
pub fn few_bytes(padded: usize) -> u32 {
    let largest = FEW_WARPS * QUERY_ROWS * 4;
    let rows = head_rows_bytes(QUERY_ROWS, padded) + FEW_WARPS * head_rows_bytes(TILE_KEYS, padded);
    count((rows + largest).next_multiple_of(128))
}

/// sizeof(Candidates): shared memory of a block of `indexer_choose`.
fn candidates_bytes() -> u32 {
    count(2 * CHOOSE_WARPS * WARP_LANES * 4)
}

fn narrow<const N: usize>(sizes: &[usize; N]) -> Result<[i32; N], Error> {
    let mut arguments = [0; N];
    for (argument, &size) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("indexer K1", "a size", size)?;
    }
    Ok(arguments)
}
