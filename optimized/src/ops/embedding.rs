//! Launches `kernels/embedding.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Embedding, RoundingContract};

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::EMBEDDING;
use crate::tensor::Matrix;

/// Threads of the block that owns a row.
const THREADS: u32 = EMBEDDING.constant("THREADS");

/// y \[n, d\] of n tokens and E \[v, d\].
///
/// C1 and C2: the reference's. K2: sizes are below 2³¹.
pub fn embedding(gpu: &Gpu, tokens: &[u32], table: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    let (v, d) = table.dim();
    Embedding::under(&RoundingContract::PARITY).check(tokens, v)?;
    let t = gpu.upload_row(tokens.iter().map(|&token| token.cast_signed()))?;
    let mut y = gpu.uninitialised((tokens.len(), d))?;
    let ld = dimension("embedding K2", "ld(E)", table.ld())?;
    let function = gpu.function(&EMBEDDING, "embedding")?;
    let grid = Grid { blocks: (count(tokens.len()), 1), threads: THREADS };
    let mut launch = gpu.launch(&function);
    launch.arg(t.data()).arg(table.data()).arg(y.data_mut()).arg(&ld);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C2; K2 by `Matrix`; K3 because y was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || EMBEDDING.label())?;
    Ok(y)
}
