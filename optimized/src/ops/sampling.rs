//! Launches `kernels/sampling.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::stated::VECTOR;
use crate::kernel::table::SAMPLING;
use crate::tensor::Matrix;

/// Words of 32 bits of a best: two logits, and a token.
const BEST_WORDS: usize = 3;

/// The token of each row's largest logit, and how far that is above the second largest.
pub fn argmax(gpu: &Gpu, logits: &Matrix<bf16>) -> Result<Vec<(u32, f32)>, Error> {
    let (tokens, margins) = argmax_there(gpu, logits)?;
    let (tokens, margins) = (gpu.download(&tokens)?, gpu.download(&margins)?);
    Ok(tokens.iter().map(|token| token.cast_unsigned()).zip(margins).collect())
}

/// The same, left on the device: tokens and margins \[1, n\].
pub fn argmax_there(gpu: &Gpu, logits: &Matrix<bf16>) -> Result<(Matrix<i32>, Matrix<f32>), Error> {
    let (n, v) = logits.dim();
    let kernel = gpu.launched(&SAMPLING);
    let threads = kernel.constant("THREADS");
    let parts = v.div_ceil(threads as usize * VECTOR);
    let mut best = gpu.uninitialised::<i32>((1, n * parts * BEST_WORDS))?;
    let [v, ld] = [("v", v), ("ld(z)", logits.ld())].map(|(what, size)| dimension("sampling K1", what, size));
    let (v, ld) = (v?, ld?);
    let function = gpu.function(&kernel, "sampling_parts")?;
    let shared = threads * count(4 * BEST_WORDS);
    let grid = gpu.with_shared("sampling K3", Grid { blocks: (count(parts), count(n)), threads }, shared)?;
    let mut launch = gpu.launch(&function);
    launch.arg(logits.data()).arg(best.data_mut()).arg(&v).arg(&ld);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `Matrix`; K2 by the allocation; K3 by the grid.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} sampling_parts", kernel.label()))?;

    let mut tokens = gpu.uninitialised::<i32>((1, n))?;
    let mut margins = gpu.uninitialised::<f32>((1, n))?;
    let parts = dimension("sampling K1", "parts", parts)?;
    let ldt = dimension("sampling K1", "ld(tokens)", tokens.ld())?;
    let function = gpu.function(&kernel, "sampling_argmax")?;
    let grid = gpu.with_shared("sampling K3", Grid { blocks: (count(n), 1), threads }, shared)?;
    let mut launch = gpu.launch(&function);
    launch.arg(best.data()).arg(tokens.data_mut()).arg(margins.data_mut()).arg(&parts).arg(&ldt);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K2 by the allocations and the launch before; K3 by the grid.
    let done = unsafe { launch.launch(grid) };
    gpu.outcome(done, || format!("{} sampling_argmax", kernel.label()))?;
    Ok((tokens, margins))
}
