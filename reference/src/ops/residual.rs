//! Residual: adds what a block computed to the stream it read.
//!
//! ```text
//! yᵢⱼ = xᵢⱼ + fᵢⱼ
//! ```
//!
//! - Shapes: x, f and y \[n, d\].
//! - Dtypes: x, f and y bf16; the sum f32.
//! - Rounding: R1 at y.
//! - Errors: C1 the shapes of x and f are equal.
//! - Source: spec A17; `MiniMaxM2DecoderLayer.forward` in transformers 5.23.

use ndarray::{Array2, ArrayView2, Zip};

use crate::bound::ErrorBound;
use crate::error::require;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// R1.
    pub output: Rounding,
    /// u of the sum.
    pub unit: f64,
}

/// y of x and f.
pub fn residual<T: Real>(p: &Residual, x: ArrayView2<'_, T>, f: ArrayView2<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), f.dim())?;
    Ok(Zip::from(&x).and(&f).par_map_collect(|&x, &f| p.output.round(x + f))) // R1
}

impl Residual {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        Residual { output: contract.stored(), unit: contract.unit() }
    }

    /// C1.
    pub fn check(&self, x: (usize, usize), f: (usize, usize)) -> Result<(), ContractError> {
        require(x == f, "residual C1", "shape of f", format!("{f:?}"), format!("{x:?}"))
    }

    /// The errors of both, one rounding of the sum, and R1.
    pub fn bound(&self, x: &Tracked<f64>, f: &Tracked<f64>, y: &Array2<f64>) -> ErrorBound {
        let mut error = x.error_or_exact().plus(&f.error_or_exact());
        error.certain.zip_mut_with(y, |e, &y| *e += self.unit * (y.abs() + *e));
        error.rounded(y.view(), self.output.storage)
    }
}
