//! Launches `kernels/block_sparse_attention.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{self, require};

use super::attention::{Cut, THREADS, head_rows_bytes, merge_threads, split_bytes, totals_bytes};
use super::qk_norm_rope::KeysValues;
use super::{HeadLayout, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::{BLOCK_SPARSE_TOKENS as TOKENS, GROUP_TILES, QUERY_ROWS, TILE_KEYS, WARP_LANES};
use crate::kernel::table::BLOCK_SPARSE_ATTENTION;
use crate::tensor::Matrix;

/// Blocks that a warp's lanes hold.
const MOST_CHOSEN: usize = WARP_LANES;

/// What is chosen: blocks of b keys.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'a> {
    /// C \[n·G, K\], or \[n, K\] for all groups alike, −1 where there is none.
    pub blocks: &'a Matrix<i32>,
    /// b.
    pub size: usize,
}

/// o \[n, H·d\] of q \[n, H·D\], whose tokens follow `first` others, and the keys and values of all of them, in chosen blocks.
///
/// C1 and C3: the reference's, where a row of blocks for each token counts as one for each of its groups. K1: q is as wide as
/// its padded heads, and sizes are below 2³¹. K2: keys and values reach to the last query. K6: at most 32 blocks are chosen.
pub fn block_sparse_attention(
    gpu: &Gpu,
    layout: &HeadLayout,
    q: &Matrix<bf16>,
    first: usize,
    kept: &KeysValues,
    chosen: Chosen<'_>,
) -> Result<Matrix<bf16>, Error> {
    let cut = Cut::of(q.dim().0, layout.padded(), gpu.shared_bytes());
    block_sparse_attention_cut(gpu, cut, layout, q, first, kept, chosen)
}

/// The same, cut as the caller says.
pub fn block_sparse_attention_cut(
    gpu: &Gpu,
    cut: Cut,
    layout: &HeadLayout,
    q: &Matrix<bf16>,
    first: usize,
    kept: &KeysValues,
    chosen: Chosen<'_>,
) -> Result<Matrix<bf16>, Error> {
    let (n, width) = q.dim();
    let HeadLayout { heads, groups, head_dim, .. } = *layout;
    require(width == heads * layout.padded(), "block_sparse_attention K1", "cols(q)", width, format!("{heads} heads"))?;
    let positions = kept.keys.dim().0;
    require(
        first + n <= positions,
        "block_sparse_attention K2",
        "positions",
        first + n,
        format!("at most {positions}"),
    )?;
    let (rows, top_k) = chosen.blocks.dim();
    require(top_k <= MOST_CHOSEN, "block_sparse_attention K6", "cols(C)", top_k, format!("at most {MOST_CHOSEN}"))?;
    let of_each_group = if rows == n { n * groups } else { rows };
    let [q_dim, kept_dim] = layout.unpadded(n, first);
    let shapes = [q_dim, kept_dim, kept_dim];
    contract::BlockSparseAttention::check_shapes(&layout.reference(), chosen.size, shapes, of_each_group)?;
    let mut o = gpu.output((n, heads * head_dim))?;
    let launch = Launch { gpu, kernel: BLOCK_SPARSE_ATTENTION[layout.variant()], layout, first, chosen };
    match cut {
        Cut::Queries => launch.prefill(q, kept, &mut o)?,
        Cut::Keys => launch.split(q, kept, &mut o)?,
    }
    Ok(o)
}

/// The kernel, for tokens that follow `first` others.
struct Launch<'a> {
    gpu: &'a Gpu,
    kernel: Kernel,
    layout: &'a HeadLayout,
    first: usize,
    chosen: Chosen<'a>,
}

impl Launch<'_> {
    /// R: tiles of the heads of a group.
    fn row_tiles(&self) -> usize {
        (self.layout.heads() / self.layout.groups()).div_ceil(QUERY_ROWS)
    }

    fn prefill(&self, q: &Matrix<bf16>, kept: &KeysValues, o: &mut Matrix<bf16>) -> Result<(), Error> {
        let (n, layout) = (q.dim().0, self.layout);
        let Chosen { blocks, size } = self.chosen;
        let sizes = [
            n,
            self.first,
            layout.heads(),
            layout.groups(),
            blocks.dim().0 / n,
            blocks.dim().1,
            size,
            layout.head_dim(),
            blocks.ld(),
            o.ld(),
        ];
        let arguments = narrow(&sizes)?;
        let scale = layout.scale();
        let function = self.gpu.function(&self.kernel, "block_sparse_attention_prefill")?;
        let grid =
            Grid { blocks: (count(n.div_ceil(TOKENS)), count(layout.groups() * self.row_tiles())), threads: THREADS };
        let bytes = prefill_bytes(layout.padded());
        let grid = self.gpu.with_shared("block_sparse_attention K7", grid, bytes)?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(q.data()).arg(kept.keys.data()).arg(kept.values.data()).arg(blocks.data()).arg(o.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        launch.arg(&scale);
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: K1 by C1; K2 by C2 and `Matrix`; K3 because `qk_norm_rope` writes them so; K4 because o was just allocated; K6 by
        // C3, C4 and because `indexer` chooses no block twice; K7 by `prefill_bytes`; K8 by `HeadLayout`.
        let done = unsafe { launch.launch(grid) };
        self.gpu.outcome(done, || format!("{} block_sparse_attention_prefill", self.kernel.label()))?;
        Ok(())
    }

    fn split(&self, q: &Matrix<bf16>, kept: &KeysValues, o: &mut Matrix<bf16>) -> Result<(), Error> {
        let (n, layout) = (q.dim().0, self.layout);
        let Chosen { blocks, size } = self.chosen;
        let top_k = blocks.dim().1;
        let splits = (top_k * size.div_ceil(TILE_KEYS)).div_ceil(GROUP_TILES);
        let queries = n * layout.heads();
        let mut stats = self.gpu.uninitialised::<f32>((1, queries * splits * 2))?;
        let mut parts = self.gpu.uninitialised::<f32>((1, queries * splits * layout.padded()))?;
        let arguments =
            narrow(&[self.first, layout.heads(), layout.groups(), blocks.dim().0 / n, top_k, size, blocks.ld()])?;
        let scale = layout.scale();
        let function = self.gpu.function(&self.kernel, "block_sparse_attention_split")?;
        let grid = Grid { blocks: (count(splits), count(n * layout.groups() * self.row_tiles())), threads: THREADS };
        let bytes = split_bytes(layout.padded());
        let grid = self.gpu.with_shared("block_sparse_attention K7", grid, bytes)?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(q.data()).arg(kept.keys.data()).arg(kept.values.data()).arg(blocks.data());
        launch.arg(stats.data_mut()).arg(parts.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        launch.arg(&scale);
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: K1 by C1; K2 by C2 and `Matrix`; K3 because `qk_norm_rope` writes them so; K5 by the allocations above; K6 by C3,
        // C4 and because `indexer` chooses no block twice; K7 by `split_bytes`; K8 by `HeadLayout`.
        let done = unsafe { launch.launch(grid) };
        self.gpu.outcome(done, || format!("{} block_sparse_attention_split", self.kernel.label()))?;
        self.merge((&stats, &parts, splits), o)
    }

    fn merge(
        &self,
        (stats, parts, splits): (&Matrix<f32>, &Matrix<f32>, usize),
        o: &mut Matrix<bf16>,
    ) -> Result<(), Error> {
        let arguments = narrow(&[splits, self.layout.head_dim(), o.ld()])?;
        let function = self.gpu.function(&self.kernel, "block_sparse_attention_merge")?;
        let blocks = (count(o.dim().0), count(self.layout.heads()));
        let grid = Grid { blocks, threads: merge_threads(self.layout.padded()) };
        let mut launch = self.gpu.launch(&function);
        launch.arg(stats.data()).arg(parts.data()).arg(o.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: K4 because o was just allocated; K5 by the launch of `block_sparse_attention_split`.
        let done = unsafe { launch.launch(grid.into()) };
        self.gpu.outcome(done, || format!("{} block_sparse_attention_merge", self.kernel.label()))?;
        Ok(())
    }
}

fn narrow<const N: usize>(sizes: &[usize; N]) -> Result<[i32; N], Error> {
    let mut arguments = [0; N];
    for (argument, &size) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("block_sparse_attention K1", "a size", size)?;
    }
    Ok(arguments)
}

/// sizeof(Prefill): shared memory of a block of `block_sparse_attention_prefill`.
pub fn prefill_bytes(padded: usize) -> u32 {
    let rows = head_rows_bytes(TOKENS * QUERY_ROWS, padded) + 3 * head_rows_bytes(TILE_KEYS, padded);
    count(rows + totals_bytes(padded) + 4 * THREADS as usize * 4)
}
