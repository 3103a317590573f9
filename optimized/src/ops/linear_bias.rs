//! Launches `kernels/linear_bias.cu`.

use half::bf16;

use reference::contract::require;

use super::linear::{Kernels, Tiling, multiply};
use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::table::{LINEAR_BIAS_64, LINEAR_BIAS_128};
use crate::tensor::Matrix;

const KERNELS: Kernels =
    Kernels { small: LINEAR_BIAS_64, large: LINEAR_BIAS_128, entries: ["linear_bias_tiles", "linear_bias_few_rows"] };

/// y \[n, m\] of x \[n, k\], w \[m, k\] and b \[1, m\].
///
/// C1: b is one row, with a value for each row of w; and `linear`'s.
pub fn linear_bias(gpu: &Gpu, x: &Matrix<bf16>, w: &Matrix<bf16>, b: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    linear_bias_tiled(gpu, Tiling::suiting(x, w), x, w, b)
}

/// The same in a tiling of the caller's choice.
pub fn linear_bias_tiled(
    gpu: &Gpu,
    tiling: Tiling,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
    b: &Matrix<bf16>,
) -> Result<Matrix<bf16>, Error> {
    let m = w.dim().0;
    require(b.dim() == (1, m), "linear_bias C1", "cols(b)", b.dim().1, format!("one row of m = {m}"))?;
    multiply(gpu, &KERNELS, tiling, [x, w], Some(b))
}
