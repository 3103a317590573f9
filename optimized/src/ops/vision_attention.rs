//! Launches `kernels/vision_attention.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{RoundingContract, VisionAttention, VisionSpan, require};

use super::attention::{PREFILL_ROWS, THREADS, prefill_bytes};
use super::{HeadLayout, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::VISION_ATTENTION;
use crate::tensor::Matrix;

/// o \[n, H·d\] of q, k and v \[n, H·D\], whose segments have so many rows each.
///
/// C1 to C3: the reference's. K1: q, k and v are as wide as their padded heads, of which there are as many of each. K3:
/// sizes are below 2³¹.
pub fn vision_attention(
    gpu: &Gpu,
    layout: &HeadLayout,
    [q, k, v]: [&Matrix<bf16>; 3],
    segments: &[usize],
) -> Result<Matrix<bf16>, Error> {
    let n = q.dim().0;
    check(layout, [q, k, v], segments)?;
    let mut o = gpu.output((n, layout.heads * layout.head_dim))?;
    let mut offsets = vec![0];
    let mut end = 0;
    for rows in segments {
        end += rows;
        offsets.push(dimension("vision_attention K3", "n", end)?);
    }
    let offsets = gpu.upload_row(offsets)?;
    let longest = segments.iter().copied().max().unwrap_or(0);
    let tiles = longest.div_ceil(PREFILL_ROWS);
    let blocks = dimension("vision_attention K3", "segments · tiles", segments.len() * tiles)?;
    let tiles = dimension("vision_attention K3", "tiles", tiles)?;
    let head_dim = dimension("vision_attention K3", "d", layout.head_dim)?;
    let ld = dimension("vision_attention K3", "ld(o)", o.ld())?;
    let scale = layout.scale();
    let kernel = VISION_ATTENTION[layout.variant()];
    let function = gpu.function(&kernel, "vision_attention")?;
    let grid = Grid { blocks: (blocks.cast_unsigned(), count(layout.heads)), threads: THREADS };
    let grid = gpu.with_shared("vision_attention K5", grid, prefill_bytes(layout.padded()))?;
    let mut launch = gpu.launch(&function);
    launch.arg(q.data()).arg(k.data()).arg(v.data()).arg(o.data_mut()).arg(offsets.data());
    launch.arg(&tiles).arg(&head_dim).arg(&ld).arg(&scale);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `check` and `Matrix`; K2 because `rope` writes them so; K3 by C2, C3 and the longest segment; K4 because o
    // was just allocated; K5 by `prefill_bytes`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || kernel.label())?;
    Ok(o)
}

/// C1 to C3, and K1.
fn check(layout: &HeadLayout, [q, k, v]: [&Matrix<bf16>; 3], segments: &[usize]) -> Result<(), Error> {
    let (n, heads) = (q.dim().0, layout.heads);
    let reference = VisionAttention::under(&RoundingContract::PARITY, heads, layout.head_dim, VisionSpan::Segmented);
    reference.check(n, k.dim().0, segments)?;
    let rows = v.dim().0;
    require(rows == n, "vision_attention C1", "rows of v", rows, format!("n = {n}"))?;
    require(layout.groups == heads, "vision_attention K1", "G", layout.groups, format!("H = {heads}"))?;
    for (quantity, x) in [("cols(q)", q), ("cols(k)", k), ("cols(v)", v)] {
        let width = x.dim().1;
        require(width == heads * layout.padded(), "vision_attention K1", quantity, width, format!("{heads} heads"))?;
    }
    Ok(())
}
