//! Launches `kernels/attention.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::require;

use super::qk_norm_rope::KeysValues;
use super::{HeadLayout, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::{GROUP_TILES, PREFILL_WARPS, QUERY_ROWS, TILE_KEYS, WARP_LANES};
use crate::kernel::table::ATTENTION;
use crate::tensor::Matrix;

/// Queries of a block of `attention_prefill`.
pub(super) const PREFILL_ROWS: usize = PREFILL_WARPS as usize * QUERY_ROWS;
/// Threads of a block that has a warp for each 16 queries, or each tile of a group: there are as many.
pub(super) const THREADS: u32 = 32 * PREFILL_WARPS;
const _: () = assert!(PREFILL_WARPS as usize == GROUP_TILES, "a block of either kind has as many warps");
/// Up to so many queries, keys are split over blocks.
const FEW_QUERIES: usize = 8;

/// How the work is cut into blocks. Both give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// By queries: each block reads all keys.
    Queries,
    /// By keys: each block takes a group of them for 16 queries; then the groups are merged.
    Keys,
}

impl Cut {
    /// The one that suits n queries, with heads padded to D channels, of which a block may have so much shared memory.
    pub fn of(n: usize, padded: usize, most_bytes: u32) -> Self {
        if n <= FEW_QUERIES && split_bytes(padded) <= most_bytes { Self::Keys } else { Self::Queries }
    }
}

/// o \[n, H·d\] of q \[n, H·D\], whose tokens follow `first` others, and the keys and values of all of them.
///
/// C1 to C4: the reference's. K1: q is as wide as its padded heads, and sizes are below 2³¹. K2: keys and values reach to the
/// last query.
pub fn attention(
    gpu: &Gpu,
    layout: &HeadLayout,
    q: &Matrix<bf16>,
    first: usize,
    kept: &KeysValues,
) -> Result<Matrix<bf16>, Error> {
    attention_cut(gpu, Cut::of(q.dim().0, layout.padded(), gpu.shared_bytes()), layout, q, first, kept)
}

/// The same, cut as the caller says.
pub fn attention_cut(
    gpu: &Gpu,
    cut: Cut,
    layout: &HeadLayout,
    q: &Matrix<bf16>,
    first: usize,
    kept: &KeysValues,
) -> Result<Matrix<bf16>, Error> {
    let (n, width) = q.dim();
    let HeadLayout { heads, head_dim, .. } = *layout;
    require(width == heads * layout.padded(), "attention K1", "cols(q)", width, format!("{heads} heads"))?;
    let positions = kept.keys.dim().0;
    require(first + n <= positions, "attention K2", "positions", first + n, format!("at most {positions}"))?;
    let [q_dim, kept_dim] = layout.unpadded(n, first);
    layout.reference().check(q_dim, kept_dim, kept_dim)?;
    let mut o = gpu.output((n, heads * head_dim))?;
    match cut {
        Cut::Queries => prefill(gpu, layout, q, first, kept, &mut o)?,
        Cut::Keys => split(gpu, layout, q, first, kept, &mut o)?,
    }
    Ok(o)
}

fn prefill(
    gpu: &Gpu,
    layout: &HeadLayout,
    q: &Matrix<bf16>,
    first: usize,
    kept: &KeysValues,
    o: &mut Matrix<bf16>,
) -> Result<(), Error> {
    let kernel = ATTENTION[layout.variant()];
    let n = q.dim().0;
    let sizes = [n, first, layout.heads, layout.groups, layout.head_dim, o.ld()];
    let arguments = narrow(&sizes)?;
    let scale = layout.scale();
    let function = gpu.function(&kernel, "attention_prefill")?;
    let grid = Grid { blocks: (count(n.div_ceil(PREFILL_ROWS)), count(layout.heads)), threads: THREADS };
    let grid = gpu.with_shared("attention K6", grid, prefill_bytes(layout.padded()))?;
    let mut launch = gpu.launch(&function);
    launch.arg(q.data()).arg(kept.keys.data()).arg(kept.values.data()).arg(o.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    launch.arg(&scale);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 and K2 as required, and by `Matrix`; K3 because `qk_norm_rope` writes them so; K4 because o was just allocated; K6 by
    // `prefill_bytes`; K7 by `HeadLayout`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} attention_prefill", kernel.label()))?;
    Ok(())
}

fn split(
    gpu: &Gpu,
    layout: &HeadLayout,
    q: &Matrix<bf16>,
    first: usize,
    kept: &KeysValues,
    o: &mut Matrix<bf16>,
) -> Result<(), Error> {
    let kernel = ATTENTION[layout.variant()];
    let n = q.dim().0;
    let splits = (first + n).div_ceil(GROUP_TILES * TILE_KEYS);
    let queries = n * layout.heads;
    let mut stats = gpu.uninitialised::<f32>((1, queries * splits * 2))?;
    let mut parts = gpu.uninitialised::<f32>((1, queries * splits * layout.padded()))?;
    let arguments = narrow(&[n, first, layout.heads, layout.groups])?;
    let scale = layout.scale();
    let rows = n * (layout.heads / layout.groups);
    let function = gpu.function(&kernel, "attention_split")?;
    let blocks = (count(splits), count(layout.groups * rows.div_ceil(QUERY_ROWS)));
    let grid = gpu.with_shared("attention K6", Grid { blocks, threads: THREADS }, split_bytes(layout.padded()))?;
    let mut launch = gpu.launch(&function);
    launch.arg(q.data()).arg(kept.keys.data()).arg(kept.values.data()).arg(stats.data_mut()).arg(parts.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    launch.arg(&scale);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 and K2 as required, and by `Matrix`; K3 because `qk_norm_rope` writes them so; K5 by the allocations above; K6 by
    // `split_bytes`; K7 by `HeadLayout`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} attention_split", kernel.label()))?;
    merge(gpu, &kernel, layout, (&stats, &parts, splits), o)
}

fn merge(
    gpu: &Gpu,
    kernel: &Kernel,
    layout: &HeadLayout,
    (stats, parts, splits): (&Matrix<f32>, &Matrix<f32>, usize),
    o: &mut Matrix<bf16>,
) -> Result<(), Error> {
    let arguments = narrow(&[splits, layout.head_dim, o.ld()])?;
    let function = gpu.function(kernel, "attention_merge")?;
    let blocks = (count(o.dim().0), count(layout.heads));
    let grid = Grid { blocks, threads: merge_threads(layout.padded()) };
    let mut launch = gpu.launch(&function);
    launch.arg(stats.data()).arg(parts.data()).arg(o.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K4 because o was just allocated; K5 by the launch of `attention_split`.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || format!("{} attention_merge", kernel.label()))?;
    Ok(())
}

fn narrow<const N: usize>(sizes: &[usize; N]) -> Result<[i32; N], Error> {
    let mut arguments = [0; N];
    for (argument, &size) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("attention K1", "a size", size)?;
    }
    Ok(arguments)
}

/// Bytes of so many rows of a head in shared memory.
pub(super) fn head_rows_bytes(rows: usize, padded: usize) -> usize {
    (rows * (padded + 8) * 2).next_multiple_of(128)
}

/// sizeof(Prefill): shared memory of a block that reads all keys.
pub fn prefill_bytes(padded: usize) -> u32 {
    count(head_rows_bytes(PREFILL_ROWS, padded) + 3 * head_rows_bytes(TILE_KEYS, padded) + totals_bytes(padded))
}

/// Threads of a block that merges: one a channel, and whole warps.
pub(super) fn merge_threads(padded: usize) -> u32 {
    count(padded.max(WARP_LANES))
}

/// sizeof(Totals<THREADS>).
pub(super) fn totals_bytes(padded: usize) -> usize {
    padded / 2 * THREADS as usize * 4
}

/// sizeof(Split): shared memory of a block that reads a group of keys.
pub fn split_bytes(padded: usize) -> u32 {
    let part = QUERY_ROWS * (2 + padded + 8) * 4;
    let half_of_values = head_rows_bytes(TILE_KEYS / 2, padded);
    let tile = head_rows_bytes(TILE_KEYS, padded) + half_of_values.max(part.next_multiple_of(128));
    count(head_rows_bytes(QUERY_ROWS, padded) + GROUP_TILES * tile)
}
