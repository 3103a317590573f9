//! Linear with bias: each row of x times the transpose of a weight, plus a row that is the same for all.
//!
//! ```text
//! yᵢⱼ = bⱼ + Σₖ xᵢₖ · wⱼₖ
//! ```
//!
//! - Shapes: x \[n, k\], w \[m, k\], b \[m\], y \[n, m\].
//! - Dtypes: x, w, b and y bf16; the sum f32.
//! - Rounding: R1 at y; the sum of products is not rounded before b is added.
//! - Errors: C1 len(b) = m; and `linear`'s.
//! - Source: spec A22, A24; `nn.Linear` with bias.

use ndarray::{Array2, ArrayView1, ArrayView2, Zip};

use super::linear::{self, Linear, linear};
use crate::bound::ErrorBound;
use crate::error::require;
use crate::matrix::Matrix;
use crate::parallel::{self, ELEMENT};
use crate::product::Product;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearBias {
    /// Of the sum of products.
    pub product: Linear,
    /// R1.
    pub output: Rounding,
    /// u of the addition.
    pub unit: f64,
}

/// y of x, w and b.
pub fn linear_bias<T: Real>(
    p: &LinearBias,
    x: ArrayView2<'_, T>,
    w: &Matrix<'_>,
    b: ArrayView1<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(w.dim().0, b.len())?;
    let y = linear(&p.product, x, w)?;
    Ok(plus(p, y, b))
}

/// The same of a product that is known.
pub(crate) fn of_product<T: Real>(
    p: &LinearBias,
    product: &Product<T>,
    b: ArrayView1<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(product.sums.ncols(), b.len())?;
    Ok(plus(p, linear::of_product(&p.product, product), b))
}

/// The sum with b.
pub(crate) fn plus<T: Real>(p: &LinearBias, mut y: Array2<T>, b: ArrayView1<'_, T>) -> Array2<T> {
    let elements = ELEMENT * y.len();
    parallel::for_each(y.rows_mut().into_iter(), elements, |mut yi| {
        Zip::from(&mut yi).and(&b).for_each(|y, &b| *y = p.output.round(*y + b)); // R1
    });
    y
}

impl LinearBias {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        let product = Linear { output: Rounding::NONE, ..Linear::under(contract) };
        LinearBias { product, output: contract.stored(), unit: contract.unit() }
    }

    /// C1.
    pub fn check(&self, m: usize, b: usize) -> Result<(), ContractError> {
        require(b == m, "linear_bias C1", "len(b)", b, format!("m = {m}"))
    }

    /// That of a sum with one term more, wherever in it b is added; after a tensor core that is an addition of its own.
    pub fn bound(&self, x: &Tracked<f64>, w: &Matrix<'_>, b: ArrayView1<'_, f64>, y: &Array2<f64>) -> ErrorBound {
        self.bound_with(x, w, (b, None::<&Product<f64>>), y)
    }

    /// The same from the sums of a product, where it is known.
    pub(crate) fn bound_with<T: Real>(
        &self,
        x: &Tracked<f64>,
        w: &Matrix<'_>,
        (b, product): (ArrayView1<'_, f64>, Option<&Product<T>>),
        y: &Array2<f64>,
    ) -> ErrorBound {
        let mut error = self.product.bound_with(x, w, (Some(b), product), y);
        let additions = error.certain.iter_mut().zip(&mut error.sigma).zip(y);
        for ((certain, sigma), y) in additions {
            let own = self.unit * (y.abs() + *certain);
            *certain += own;
            *sigma = sigma.hypot(own / 3.0_f64.sqrt()).min(*certain);
        }
        error.rounded(y.view(), self.output.storage)
    }
}
