//! Launches `kernels/rms_norm.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{EpsPlace, NormWeight, RmsNorm, RoundingContract};

use super::{count, dimension, length, one};
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
/// C1 to C3: the reference's. K1: w is one row. K2: sizes are below 2³¹.
pub fn rms_norm(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
    weight: NormWeight,
    eps: f32,
) -> Result<Matrix<bf16>, Error> {
    let (n, d) = x.dim();
    let p = RmsNorm::under(&RoundingContract::PARITY, eps.into(), EpsPlace::Inside).weighing(weight);
    p.check((n, d), length("rms_norm K1", "rows(w)", w)?)?;
    let mut y = gpu.uninitialised((n, d))?;
    let ld = dimension("rms_norm K2", "ld(x)", x.ld())?;
    let d = dimension("rms_norm K2", "d", d)?;
    let function = gpu.function(&RMS_NORM, "rms_norm")?;
    let grid = gpu.with_shared("rms_norm K4", Grid { blocks: (count(n), 1), threads: THREADS }, SHARED_BYTES)?;
    let mut launch = gpu.launch(&function);
    let one = one(weight);
    launch.arg(x.data()).arg(w.data()).arg(y.data_mut()).arg(&d).arg(&ld).arg(&eps).arg(&one);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C2, `length` and `Matrix`, whose padding is zero; K2 by `Matrix` and `dimension`; K3 because y was just allocated; K4 by the
    // grid; K5 by `one`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || RMS_NORM.label())?;
    Ok(y)
}
