//! Launches `kernels/mtp.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{EpsPlace, NormWeight, RmsNorm, RoundingContract, mtp_check};

use super::{count, dimension, length, one};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::MTP;
use crate::tensor::Matrix;

/// Threads of the block that owns half of a row.
const THREADS: u32 = MTP.constant("THREADS");

/// Shared memory of a block: a partial sum of each warp.
const SHARED_BYTES: u32 = THREADS / 32 * 4;

/// The norms of both halves.
#[derive(Debug, Clone, Copy)]
pub struct Norms<'a> {
    /// wₑ \[1, d\].
    pub embedding: &'a Matrix<bf16>,
    /// wₕ \[1, d\].
    pub hidden: &'a Matrix<bf16>,
    /// What they multiply by.
    pub weight: NormWeight,
    /// ε.
    pub eps: f32,
}

/// \[norm(e; wₑ); norm(h; wₕ)\] \[n, 2·d\] of e and h \[n, d\], of which e's row 0 may count as 0.
///
/// C1: the reference's, and C1 to C3 of its `rms_norm`. K1: weights are one row. K2 and K3: sizes are below 2³¹.
pub fn mtp(
    gpu: &Gpu,
    e: &Matrix<bf16>,
    h: &Matrix<bf16>,
    norms: Norms<'_>,
    is_first_zeroed: bool,
) -> Result<Matrix<bf16>, Error> {
    let (n, d) = e.dim();
    mtp_check((n, d), h.dim())?;
    let p = RmsNorm::under(&RoundingContract::PARITY, norms.eps.into(), EpsPlace::Inside).weighing(norms.weight);
    p.check((n, d), length("mtp K1", "rows(w_e)", norms.embedding)?)?;
    p.check((n, d), length("mtp K1", "rows(w_h)", norms.hidden)?)?;
    let mut y = gpu.uninitialised((n, 2 * d))?;
    let ld = dimension("mtp K2", "ld(e)", e.ld())?;
    let ldy = dimension("mtp K3", "ld(y)", y.ld())?;
    let d = dimension("mtp K2", "d", d)?;
    let function = gpu.function(&MTP, "mtp")?;
    let grid = gpu.with_shared("mtp K4", Grid { blocks: (count(n), 2), threads: THREADS }, SHARED_BYTES)?;
    let one = one(norms.weight);
    let zeroed = if is_first_zeroed { 0_i32 } else { -1 };
    let mut launch = gpu.launch(&function);
    launch.arg(e.data()).arg(norms.embedding.data()).arg(h.data()).arg(norms.hidden.data()).arg(y.data_mut());
    launch.arg(&d).arg(&ld).arg(&ldy).arg(&norms.eps).arg(&one).arg(&zeroed);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1, C2 of `rms_norm`, `length` and `Matrix`, whose padding is zero; K2 by `Matrix` and `dimension`; K3
    // because y was just allocated; K4 by the grid; K5 by `one`; K6 by `zeroed`.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || MTP.label())?;
    Ok(y)
}
