//! Launches `kernels/layer_norm.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::require;

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::LAYER_NORM;
use crate::tensor::Matrix;

/// Threads of the block that owns a row.
const THREADS: u32 = LAYER_NORM.constant("THREADS");

/// Shared memory of a block: two partial sums of each warp.
const SHARED_BYTES: u32 = THREADS / 32 * 8;

/// y of x \[n, d\], w and b \[1, d\], with ε = `eps`.
///
/// C2 and C3: w and b are one row each, as wide as x's. C4: ε > 0.
pub fn layer_norm(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
    b: &Matrix<bf16>,
    eps: f32,
) -> Result<Matrix<bf16>, Error> {
    let (n, d) = x.dim();
    require(w.dim() == (1, d), "layer_norm C2", "cols(w)", w.dim().1, format!("one row of d = {d}"))?;
    require(b.dim() == (1, d), "layer_norm C3", "cols(b)", b.dim().1, format!("one row of d = {d}"))?;
    require(0.0 < eps, "layer_norm C4", "ε", eps, "above 0")?;
    let mut y = gpu.uninitialised((n, d))?;
    let ld = dimension("layer_norm C5", "ld(x)", x.ld())?;
    let d = dimension("layer_norm C5", "d", d)?;
    let function = gpu.function(&LAYER_NORM, "layer_norm")?;
    let grid = Grid { blocks: (count(n), 1), threads: THREADS, shared_bytes: SHARED_BYTES };
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(w.data()).arg(b.data()).arg(y.data_mut()).arg(&d).arg(&ld).arg(&eps);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C2, C3 and `Matrix`, whose padding is zero; K2 by `Matrix`; K3 because y was just allocated; K4 by the
    // grid.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || LAYER_NORM.label())?;
    Ok(y)
}
