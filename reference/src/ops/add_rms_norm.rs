//! Residual and RMSNorm: adds a branch to the residual stream, then normalizes the stored sum.
//!
//! ```text
//! s = residual(x, f)        y = rms_norm(s; w)
//! ```
//!
//! - Shapes: x, f, s and y \[n, d\], w \[d\].
//! - Dtypes: as `residual` and `rms_norm`.
//! - Rounding: R1 at s, `residual`'s; R2 at y and before, `rms_norm`'s.
//! - Errors: those of `residual` and of `rms_norm`.
//! - Variants: D60 where R1 is: here before the norm reads s.
//! - Source: spec A17; `fused_add_rms_norm` in vLLM, which leaves the sum before R1 to the norm.

use ndarray::{Array2, ArrayView1, ArrayView2};

use super::residual::{Residual, residual};
use super::rms_norm::{RmsNorm, rms_norm};
use crate::bound::ErrorBound;
use crate::semantics::EpsPlace;
use crate::tracked::Tracked;
use crate::{ContractError, Real, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddRmsNorm {
    /// Of the addition.
    pub residual: Residual,
    /// Of the norm.
    pub norm: RmsNorm,
}

/// s and y of x, f and w.
pub fn add_rms_norm<T: Real>(
    p: &AddRmsNorm,
    x: ArrayView2<'_, T>,
    f: ArrayView2<'_, T>,
    w: ArrayView1<'_, T>,
) -> Result<(Array2<T>, Array2<T>), ContractError> {
    let s = residual(&p.residual, x, f)?; // R1
    let y = rms_norm(&p.norm, s.view(), w)?; // R2
    Ok((s, y))
}

impl AddRmsNorm {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, eps: f64, eps_place: EpsPlace) -> Self {
        AddRmsNorm { residual: Residual::under(contract), norm: RmsNorm::under(contract, eps, eps_place) }
    }

    /// The bounds of s and y: the sum's is the norm's input error.
    pub fn bound(
        &self,
        x: &Tracked<f64>,
        f: &Tracked<f64>,
        w: ArrayView1<'_, f64>,
        (s, y): (&Array2<f64>, &Array2<f64>),
    ) -> (ErrorBound, ErrorBound) {
        let of_sum = self.residual.bound(x, f, s);
        let read = Tracked { value: s.clone(), error: Some(of_sum.clone()) };
        (of_sum, self.norm.bound(&read, w, y))
    }
}
