//! Router jitter: in training, the input of the experts' block times noise, so that choices explore.
//!
//! ```text
//! yᵢⱼ = xᵢⱼ·Uᵢⱼ        U uniform in [1 − ε, 1 + ε)
//! ```
//!
//! - Shapes: x, U and y \[n, d\].
//! - Dtypes: x, U and y in the activations' type.
//! - Rounding: R1 at U, R2 at y.
//! - Errors: C1 0 ≤ ε < 1; C2 U has the shape of x.
//! - Variants: none. In inference, and where ε is 0 as in all released configurations, y = x: a port that has it there gives another
//!   answer each time. Router and experts both read y.
//! - Source: spec A10; `MiniMaxM2SparseMoeBlock.forward` in transformers 5.23.

use ndarray::{Array2, ArrayView2, Zip};
use rand::{Rng, RngExt};

use crate::bound::ErrorBound;
use crate::error::require;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouterJitter {
    /// ε.
    pub noise: f64,
    /// R1 and R2.
    pub stored: Rounding,
    /// u of a product.
    pub unit: f64,
}

/// y of x, and of a U that is drawn.
pub fn router_jitter<T: Real>(
    p: &RouterJitter,
    x: ArrayView2<'_, T>,
    rng: &mut impl Rng,
) -> Result<Array2<T>, ContractError> {
    p.check()?;
    if p.noise == 0.0 {
        return Ok(x.to_owned());
    }
    let drawn = Array2::from_shape_simple_fn(x.dim(), || T::of(rng.random_range(1.0 - p.noise..1.0 + p.noise)));
    jittered(p, x, drawn.view())
}

/// y of x and U.
pub fn jittered<T: Real>(
    p: &RouterJitter,
    x: ArrayView2<'_, T>,
    noise: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    let expected = format!("{:?}, that of x", x.dim());
    require(noise.dim() == x.dim(), "router_jitter C2", "shape of U", format!("{:?}", noise.dim()), expected)?;
    Ok(Zip::from(&x).and(&noise).map_collect(|&x, &noise| p.stored.round(x * p.stored.round(noise)))) // R1, R2
}

impl RouterJitter {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, noise: f64) -> Self {
        RouterJitter { noise, stored: contract.stored(), unit: contract.unit() }
    }

    /// C1.
    pub fn check(&self) -> Result<(), ContractError> {
        require((0.0..1.0).contains(&self.noise), "router_jitter C1", "ε", self.noise, "from 0 to below 1")
    }

    /// Of y for a U that is known: R1 and the product's rounding, and R2.
    pub fn bound(&self, y: &Array2<f64>) -> ErrorBound {
        self.spread(y, 0.0)
    }

    /// How far y is from x for any U: by ε·|x|, and as by a known U. In f32, x is multiplied by 1 + ε at most as it is
    /// rounded up.
    pub fn bound_drawn(&self, x: &Array2<f64>) -> ErrorBound {
        if self.noise == 0.0 { ErrorBound::exact(x.dim()) } else { self.spread(x, self.noise) }
    }

    /// Of values that a factor moves by up to `noise`.
    fn spread(&self, y: &Array2<f64>, noise: f64) -> ErrorBound {
        let storage = self.stored.storage;
        let off = (1.0 + storage.unit_roundoff()) * (1.0 + self.unit).powi(2) - 1.0;
        let certain = y.mapv(|y| y.abs() * (noise + (1.0 + noise) * off) + storage.underflow());
        let sigma = y.mapv(|y| y.abs() * (noise + off) / 3.0_f64.sqrt() + storage.underflow());
        ErrorBound { certain, sigma, carried: 0 }.rounded(y.view(), storage)
    }
}
