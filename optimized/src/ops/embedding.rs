//! Launches `kernels/embedding.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{Embedding, RoundingContract, require};

use super::{count, dimension};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::table::EMBEDDING;
use crate::tensor::Matrix;

/// y \[n, d\] of n tokens and E \[v, d\].
///
/// C1 and C2: the reference's. K2: sizes are below 2³¹.
pub fn embedding(gpu: &Gpu, tokens: &[u32], table: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    embedding_of(gpu, &Tokens::upload(gpu, tokens, table.dim().0)?, table)
}

/// Tokens on a device.
#[derive(Debug)]
pub struct Tokens {
    ids: Matrix<i32>,
    /// They are below this.
    v: usize,
}

impl Tokens {
    /// C1 and C2: the reference's, for a table of v rows.
    pub fn upload(gpu: &Gpu, tokens: &[u32], v: usize) -> Result<Self, Error> {
        Embedding::under(&RoundingContract::PARITY).check(tokens, v)?;
        Ok(Tokens { ids: gpu.upload_row(tokens.iter().map(|&token| token.cast_signed()))?, v })
    }
}

/// y of tokens that are on the device, so that nothing is copied.
///
/// C2: the table has the rows that they were checked for. K2: sizes are below 2³¹.
pub fn embedding_of(gpu: &Gpu, tokens: &Tokens, table: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    let ((v, d), n) = (table.dim(), tokens.ids.dim().1);
    require(v >= tokens.v, "embedding C2", "v", v, format!("at least the tokens', {}", tokens.v))?;
    let mut y = gpu.uninitialised((n, d))?;
    let ld = dimension("embedding K2", "ld(E)", table.ld())?;
    let kernel = gpu.launched(&EMBEDDING);
    let function = gpu.function(&kernel, "embedding")?;
    let grid = Grid { blocks: (count(n), 1), threads: kernel.constant("THREADS") };
    let mut launch = gpu.launch(&function);
    launch.arg(tokens.ids.data()).arg(table.data()).arg(y.data_mut()).arg(&ld);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by C2; K2 by `Matrix`; K3 because y was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || kernel.label())?;
    Ok(y)
}
