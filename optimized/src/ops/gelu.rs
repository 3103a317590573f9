//! Launches `kernels/gelu.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Gelu, require};

use super::by_vectors;
use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::table::GELU;
use crate::tensor::Matrix;

/// a of x \[n, d\].
///
/// K1: sizes are below 2³¹. K2: Φ is the exact one.
pub fn gelu(gpu: &Gpu, kind: Gelu, x: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    require(kind == Gelu::Erf, "gelu K2", "gelu", kind, Gelu::Erf)?;
    let mut a = gpu.uninitialised(x.dim())?;
    let (grid, vectors) = by_vectors("gelu K1", x, GELU.constant("THREADS"))?;
    let function = gpu.function(&GELU, "gelu")?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(a.data_mut()).arg(&vectors);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `Matrix`, whose padding is zero, and because a was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || GELU.label())?;
    Ok(a)
}
