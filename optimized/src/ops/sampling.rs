//! Launches `kernels/sampling.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::SAMPLING;
use crate::tensor::Matrix;

/// Bytes of a thread's best.
const BEST_BYTES: u32 = 12;

/// The token of each row's largest logit, and how far that is above the second largest.
pub fn argmax(gpu: &Gpu, logits: &Matrix<bf16>) -> Result<Vec<(u32, f32)>, Error> {
    let (tokens, margins) = argmax_there(gpu, logits)?;
    let (tokens, margins) = (gpu.download(&tokens)?, gpu.download(&margins)?);
    Ok(tokens.iter().map(|token| token.cast_unsigned()).zip(margins).collect())
}

/// The same, left on the device: tokens and margins \[1, n\].
pub fn argmax_there(gpu: &Gpu, logits: &Matrix<bf16>) -> Result<(Matrix<i32>, Matrix<f32>), Error> {
    let (n, v) = logits.dim();
    let mut tokens = gpu.zeros::<i32>((1, n))?;
    let mut margins = gpu.zeros::<f32>((1, n))?;
    let ld = dimension("sampling K1", "ld(z)", logits.ld())?;
    let v = dimension("sampling K1", "v", v)?;
    let kernel = gpu.launched(&SAMPLING);
    let threads = kernel.constant("THREADS");
    let function = gpu.function(&kernel, "sampling_argmax")?;
    let grid = gpu.with_shared("sampling K3", Grid { blocks: (count(n), 1), threads }, threads * BEST_BYTES)?;
    let mut launch = gpu.launch(&function);
    launch.arg(logits.data()).arg(tokens.data_mut()).arg(margins.data_mut()).arg(&v).arg(&ld);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `Matrix`; K2 by the allocations; K3 by the grid.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || kernel.label())?;
    Ok((tokens, margins))
}
