//! Launches `kernels/rope.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Rope, RopePair, RopePart, require};

use super::{HeadLayout, NOWHERE, count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::ROPE;
use crate::tensor::Matrix;

/// Threads of a block, a warp a head.
const THREADS: u32 = ROPE.constant("THREADS");

/// y \[n, H·D\] of x \[n, H·d\], cos and sin \[n, 2h\]: heads are padded as [`HeadLayout`] says.
///
/// C1 to C3: the reference's. K3: sizes are below 2³¹. K5: the first channels rotate, in halves of all that do.
pub fn rope(
    gpu: &Gpu,
    p: &Rope,
    x: &Matrix<bf16>,
    cos: &Matrix<f32>,
    sin: &Matrix<f32>,
) -> Result<Matrix<bf16>, Error> {
    p.check(x.dim(), cos.dim(), sin.dim())?;
    require(p.part == RopePart::First, "rope K5", "rope_part", p.part, RopePart::First)?;
    require(p.pair == RopePair::Half, "rope K5", "rope_pair", p.pair, RopePair::Half)?;
    require(p.runs == 1, "rope K5", "runs of rotated channels", p.runs, 1)?;
    rotated(gpu, p.head_dim, x, Some([cos, sin]))
}

/// y \[n, H·D\] of x \[n, H·d\]: heads are padded, and nothing rotates.
///
/// C1: x is whole heads.
pub fn pad_heads(gpu: &Gpu, head_dim: usize, x: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    let width = x.dim().1;
    let whole = head_dim >= 1 && width.is_multiple_of(head_dim);
    require(whole, "rope C1", "columns of x", width, format!("a multiple of d = {head_dim}"))?;
    rotated(gpu, head_dim, x, None)
}

fn rotated(
    gpu: &Gpu,
    head_dim: usize,
    x: &Matrix<bf16>,
    table: Option<[&Matrix<f32>; 2]>,
) -> Result<Matrix<bf16>, Error> {
    let (n, width) = x.dim();
    let heads = width / head_dim;
    let padded = HeadLayout::new(heads, heads, head_dim)?.padded();
    let mut y = gpu.uninitialised((n, heads * padded))?;
    let (rotary_dim, ldt) = table.map_or((0, 0), |[cos, _]| (cos.dim().1, cos.ld()));
    let sizes =
        [("heads", heads), ("d", head_dim), ("D", padded), ("h", rotary_dim / 2), ("ld(x)", x.ld()), ("ld(cos)", ldt)];
    let mut arguments = [0; 6];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("rope K3", quantity, value)?;
    }
    let function = gpu.function(&ROPE, "rope")?;
    let warps = THREADS as usize / 32;
    let grid = Grid { blocks: (count(n), count(heads.div_ceil(warps))), threads: THREADS };
    let mut launch = gpu.launch(&function);
    launch.arg(x.data());
    match table {
        Some([cos, sin]) => launch.arg(cos.data()).arg(sin.data()),
        None => launch.arg(&NOWHERE).arg(&NOWHERE),
    };
    launch.arg(y.data_mut());
    for argument in &arguments {
        launch.arg(argument);
    }
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1; K2 by C3, and with no table h is 0; K3 by C2 and `HeadLayout`; K4 because y was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || ROPE.label())?;
    Ok(y)
}
