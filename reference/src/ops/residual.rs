//! Residual: adds what a block computed to the stream it read.
//!
//! ```text
//! yᵢⱼ = xᵢⱼ + fᵢⱼ
//! ```
//!
//! - Shapes: x, f and y \[n, d\].
//! - Dtypes: x, f and y bf16; the sum f32. A precision may keep the stream, x and y, in another type (`stream`).
//! - Rounding: R1 at y, to the stream's type.
//! - Errors: C1 the shapes of x and f are equal.
//! - Variants: slips of ports: α·x and β·f for x and f, and γ·y for y once it is stored, each rounded as y is; rows of f, or of what
//!   it is made of, are never written.
//! - Source: spec A17; `MiniMaxM2DecoderLayer.forward` in transformers 5.23.

use ndarray::{Array2, ArrayView2, CowArray, Ix2, Zip};

use crate::bound::ErrorBound;
use crate::error::require;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// α, β and γ.
    pub factors: [f64; 3],
    /// R1.
    pub output: Rounding,
    /// u of the sum.
    pub unit: f64,
}

/// y of x and f.
pub fn residual<T: Real>(p: &Residual, x: ArrayView2<'_, T>, f: ArrayView2<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), f.dim())?;
    Ok(p.scaled(p.sum(x, f).view(), p.factors[2]).into_owned())
}

impl Residual {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        Residual { factors: [1.0; 3], output: contract.streamed(), unit: contract.unit() }
    }

    /// y before its factor.
    fn sum<T: Real>(&self, x: ArrayView2<'_, T>, f: ArrayView2<'_, T>) -> Array2<T> {
        let [x, f] = [(x, self.factors[0]), (f, self.factors[1])].map(|(x, factor)| self.scaled(x, factor));
        Zip::from(&x).and(&f).par_map_collect(|&x, &f| self.output.round(x + f)) // R1
    }

    /// A term, or y, times its factor.
    fn scaled<'x, T: Real>(&self, x: ArrayView2<'x, T>, factor: f64) -> CowArray<'x, T, Ix2> {
        if factor == 1.0 { x.into() } else { x.mapv(|x| self.output.round(x * T::of(factor))).into() }
    }

    /// C1.
    pub fn check(&self, x: (usize, usize), f: (usize, usize)) -> Result<(), ContractError> {
        require(x == f, "residual C1", "shape of f", format!("{f:?}"), format!("{x:?}"))
    }

    /// The errors of both, those of their factors, one rounding of the sum, R1, and γ's.
    pub fn bound(&self, x: &Tracked<f64>, f: &Tracked<f64>, y: &Array2<f64>) -> ErrorBound {
        let times = |mut error: ErrorBound, x: ArrayView2<'_, f64>, factor: f64| {
            if factor == 1.0 {
                return error;
            }
            let y = self.scaled(x, factor);
            error.certain.mapv_inplace(|e| e * factor.abs());
            error.sigma.mapv_inplace(|s| s * factor.abs());
            error.certain.zip_mut_with(&y, |e, &y| *e += 2.0 * self.unit * (y.abs() + *e));
            error.rounded(y.view(), self.output.storage)
        };
        let [alpha, beta, gamma] = self.factors;
        let sum = if gamma == 1.0 { y.view().into() } else { CowArray::from(self.sum(x.view(), f.view())) };
        let [x, f] = [(x, alpha), (f, beta)].map(|(x, by)| times(x.error_or_exact(), x.view(), by));
        let mut error = x.plus(&f);
        error.certain.zip_mut_with(&sum, |e, &y| *e += self.unit * (y.abs() + *e));
        times(error.rounded(sum.view(), self.output.storage), sum.view(), gamma)
    }
}
