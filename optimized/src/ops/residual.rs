//! Launches `kernels/residual.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Residual, RoundingContract};

use super::by_vectors;
use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::table::RESIDUAL;
use crate::tensor::Matrix;

/// y of x and f \[n, d\].
///
/// C1: the reference's. K1: sizes are below 2³¹.
pub fn residual(gpu: &Gpu, x: &Matrix<bf16>, f: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    Residual::under(&RoundingContract::PARITY).check(x.dim(), f.dim())?;
    let mut y = gpu.uninitialised(x.dim())?;
    let (grid, vectors) = by_vectors("residual K1", x, RESIDUAL.constant("THREADS"))?;
    let function = gpu.function(&RESIDUAL, "residual")?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(f.data()).arg(y.data_mut()).arg(&vectors);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C1 and `Matrix`, whose padding is zero, and because y was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || RESIDUAL.label())?;
    Ok(y)
}
