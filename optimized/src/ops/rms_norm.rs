//! Launches `kernels/rms_norm.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{NormWeight, require};

use super::{count, dimension, one};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::RMS_NORM;
use crate::tensor::Matrix;

/// Threads of the block that owns a row.
const THREADS: u32 = RMS_NORM.constant("THREADS");

/// Shared memory of a block: a partial sum of each warp.
const SHARED_BYTES: u32 = THREADS / 32 * 4;

/// y of x \[n, d\] and w \[1, d\], with ε = `eps`.
///
/// C1: w is one row, as wide as x's.
pub fn rms_norm(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
    weight: NormWeight,
    eps: f32,
) -> Result<Matrix<bf16>, Error> {
    let (n, d) = x.dim();
    require(w.dim() == (1, d), "rms_norm C1", "cols(w)", w.dim().1, format!("one row of d = {d}"))?;
    let mut y = gpu.uninitialised((n, d))?;
    let ld = dimension("rms_norm C2", "ld(x)", x.ld())?;
    let d = dimension("rms_norm C2", "d", d)?;
    let function = gpu.function(&RMS_NORM, "rms_norm")?;
    let grid = Grid { blocks: (count(n), 1), threads: THREADS, shared_bytes: SHARED_BYTES };
    let mut launch = gpu.launch(&function);
    let one = one(weight);
    launch.arg(x.data()).arg(w.data()).arg(y.data_mut()).arg(&d).arg(&ld).arg(&eps).arg(&one);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1 and `Matrix`, whose padding is zero; K2 by `Matrix`; K3 because y was just allocated; K4 by the
    // grid; K5 by `one`.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || RMS_NORM.label())?;
    Ok(y)
}
