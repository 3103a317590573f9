//! Launches `kernels/layer_norm.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{LayerNorm, RoundingContract};

use super::{count, dimension, length};
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
/// C1 to C4: the reference's. K1: w and b are one row each. K2: sizes are below 2³¹.
pub fn layer_norm(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
    b: &Matrix<bf16>,
    eps: f32,
) -> Result<Matrix<bf16>, Error> {
    let (n, d) = x.dim();
    let [w_length, b_length] = [("rows(w)", w), ("rows(b)", b)].map(|(rows, x)| length("layer_norm K1", rows, x));
    LayerNorm::under(&RoundingContract::PARITY, eps.into()).check((n, d), w_length?, b_length?)?;
    let mut y = gpu.uninitialised((n, d))?;
    let ld = dimension("layer_norm K2", "ld(x)", x.ld())?;
    let d = dimension("layer_norm K2", "d", d)?;
    let function = gpu.function(&LAYER_NORM, "layer_norm")?;
    let grid = gpu.with_shared("layer_norm K4", Grid { blocks: (count(n), 1), threads: THREADS }, SHARED_BYTES)?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(w.data()).arg(b.data()).arg(y.data_mut()).arg(&d).arg(&ld).arg(&eps);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C2, C3 and `Matrix`, whose padding is zero; K2 by `Matrix`; K3 because y was just allocated; K4 by the
    // grid.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || LAYER_NORM.label())?;
    Ok(y)
}
