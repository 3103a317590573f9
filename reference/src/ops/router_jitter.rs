//! Router jitter: in training, the input of the experts' block times noise, so that choices explore.
//!
//! ```text
//! yᵢⱼ = xᵢⱼ·Uᵢⱼ        U uniform in [1 − ε, 1 + ε)
//! ```
//!
//! - Shapes: x and y \[n, d\].
//! - Dtypes: x, U and y in the activations' type.
//! - Rounding: R1 at U, R2 at y.
//! - Errors: C1 0 ≤ ε < 1.
//! - Variants: none. In inference, and where ε is 0 as in all released configurations, y = x: a port that has it there gives another
//!   answer each time. Router and experts both read y.
//! - Source: spec A10; `MiniMaxM2SparseMoeBlock.forward` in transformers 5.23.

use ndarray::{Array2, ArrayView2};
use rand::{Rng, RngExt};

use crate::error::require;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouterJitter {
    /// ε.
    pub noise: f64,
    /// R1 and R2.
    pub stored: Rounding,
}

/// y of x.
pub fn router_jitter<T: Real>(
    p: &RouterJitter,
    x: ArrayView2<'_, T>,
    rng: &mut impl Rng,
) -> Result<Array2<T>, ContractError> {
    require((0.0..1.0).contains(&p.noise), "router_jitter C1", "ε", p.noise, "from 0 to below 1")?;
    if p.noise == 0.0 {
        return Ok(x.to_owned());
    }
    Ok(x.mapv(|x| {
        let factor = T::of(rng.random_range(1.0 - p.noise..1.0 + p.noise));
        p.stored.round(x * p.stored.round(factor)) // R1, R2
    }))
}

impl RouterJitter {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, noise: f64) -> Self {
        RouterJitter { noise, stored: contract.stored() }
    }
}
