//! Launches `kernels/patch_embedding.cu`.

use cudarc::driver::PushKernelArg;
use half::bf16;

use reference::contract::{PatchEmbedding, PatchOrder, require};

use super::by_vectors;
use super::linear::linear;
use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::table::PATCH_EMBEDDING;
use crate::tensor::Matrix;

/// y \[n, m\] of x \[n, C·T·P·P\] and w \[m, C·T·P·P\], whose R1 is the caller's.
///
/// C1: the reference's; and `linear`'s. K1: sizes are below 2³¹. K2: w's columns are (c, t, p, q).
pub fn patch_embedding(
    gpu: &Gpu,
    p: &PatchEmbedding,
    x: &Matrix<f32>,
    w: &Matrix<bf16>,
) -> Result<Matrix<bf16>, Error> {
    p.check(x.dim().1)?;
    require(p.order == PatchOrder::ColourFirst, "patch_embedding K2", "order", p.order, PatchOrder::ColourFirst)?;
    linear(gpu, &rounded(gpu, x)?, w)
}

/// ρ(x), of pixels or of weights.
pub fn rounded(gpu: &Gpu, x: &Matrix<f32>) -> Result<Matrix<bf16>, Error> {
    let mut y = gpu.uninitialised(x.dim())?;
    let (grid, vectors) = by_vectors("patch_embedding K1", x, PATCH_EMBEDDING.constant("THREADS"))?;
    let function = gpu.function(&PATCH_EMBEDDING, "patch_embedding_round")?;
    let mut launch = gpu.launch(&function);
    launch.arg(x.data()).arg(y.data_mut()).arg(&vectors);
    #[expect(unsafe_code, reason = "a launch cannot be checked")]
    // SAFETY: K1 by `Matrix`, whose padding is zero, and because y was just allocated.
    let done = unsafe { launch.launch(grid.into()) };
    gpu.outcome(done, || PATCH_EMBEDDING.label())?;
    Ok(y)
}
