//! Launches `kernels/linear_bias.cu`.

use half::bf16;

use reference::contract::{LinearBias, RoundingContract};

use super::length;
use super::linear::{Kernels, Tiling, multiply};
use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::table::{LINEAR_BIAS_64, LINEAR_BIAS_128, LINEAR_BIAS_WARPGROUPS};
use crate::tensor::Matrix;

const KERNELS: Kernels = Kernels {
    small: LINEAR_BIAS_64,
    large: LINEAR_BIAS_128,
    warpgroups: LINEAR_BIAS_WARPGROUPS,
    entries: ["linear_bias_tiles", "linear_bias_few_rows"],
};

/// y \[n, m\] of x \[n, k\], w \[m, k\] and b \[1, m\].
///
/// C1: the reference's; and `linear`'s. K7: b is one row.
pub fn linear_bias(gpu: &Gpu, x: &Matrix<bf16>, w: &Matrix<bf16>, b: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    linear_bias_tiled(gpu, Tiling::suiting(gpu, &KERNELS, x, w.into()), x, w, b)
}

/// The same in a tiling of the caller's choice.
pub fn linear_bias_tiled(
    gpu: &Gpu,
    tiling: Tiling,
    x: &Matrix<bf16>,
    w: &Matrix<bf16>,
    b: &Matrix<bf16>,
) -> Result<Matrix<bf16>, Error> {
    let of_b = length("linear_bias K7", "rows(b)", b)?;
    LinearBias::under(&RoundingContract::PARITY).check(w.dim().0, of_b)?;
    multiply(gpu, &KERNELS, tiling, (x, w.into()), Some(b))
}
