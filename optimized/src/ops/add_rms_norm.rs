//! Launches `kernels/add_rms_norm.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{AddRmsNorm, EpsPlace, NormWeight, RoundingContract};

use super::{count, dimension, length, one};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::ADD_RMS_NORM;
use crate::tensor::Matrix;

/// Threads of the block that owns a row.
const THREADS: u32 = ADD_RMS_NORM.constant("THREADS");

/// s and y of the stream x \[n, d\], the branch f \[n, d\] and w \[1, d\], with ε = `eps`.
///
/// C1 and on: the reference's. K1: w is one row. K2: sizes are below 2³¹.
pub fn add_rms_norm(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    f: &Matrix<bf16>,
    w: &Matrix<bf16>,
    weight: NormWeight,
    eps: f32,
) -> Result<(Matrix<bf16>, Matrix<bf16>), Error> {
    let (n, d) = x.dim();
    let p = AddRmsNorm::under(&RoundingContract::PARITY, eps.into(), EpsPlace::Inside);
    p.check((n, d), f.dim(), length("add_rms_norm K1", "rows(w)", w)?)?;
    let mut s = gpu.uninitialised((n, d))?;
    let mut y = gpu.uninitialised((n, d))?;
    let ld = dimension("add_rms_norm K2", "ld(x)", x.ld())?;
    let d = dimension("add_rms_norm K2", "d", d)?;
    let function = gpu.function(&ADD_RMS_NORM, "add_rms_norm")?;
    let grid =
        gpu.with_shared("add_rms_norm K4", Grid { blocks: (count(n), 1), threads: THREADS }, THREADS / 32 * 4)?;
    let mut launch = gpu.launch(&function);
    let one = one(weight);
    launch.arg(x.data()).arg(f.data()).arg(w.data()).arg(s.data_mut()).arg(y.data_mut());
    launch.arg(&d).arg(&ld).arg(&eps).arg(&one);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by the check and `Matrix`, whose padding is zero; K2 by `Matrix`; K3 because s and y were just allocated;
    // K4 by the grid; K5 by `one`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || ADD_RMS_NORM.label())?;
    Ok((s, y))
}
