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
//! - Variants: D60 whether the norm reads s, or the sum before R1.
//! - Source: spec A17; `fused_add_rms_norm` in vLLM, which reads the sum.

use ndarray::{Array2, ArrayView1, ArrayView2};

use super::residual::{Residual, residual};
use super::rms_norm::{RmsNorm, rms_norm};
use crate::bound::ErrorBound;
use crate::rounding::NormInput;
use crate::semantics::EpsPlace;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddRmsNorm {
    /// Of the addition.
    pub residual: Residual,
    /// Of the norm.
    pub norm: RmsNorm,
    /// D60.
    pub input: NormInput,
}

/// s and y of x, f and w.
pub fn add_rms_norm<T: Real>(
    p: &AddRmsNorm,
    x: ArrayView2<'_, T>,
    f: ArrayView2<'_, T>,
    w: ArrayView1<'_, T>,
) -> Result<(Array2<T>, Array2<T>), ContractError> {
    p.check(x.dim(), f.dim(), w.len())?;
    let s = residual(&p.residual, x, f)?; // R1
    let y = match p.input {
        NormInput::Stored => rms_norm(&p.norm, s.view(), w)?,
        NormInput::Sum | NormInput::Fused => rms_norm(&p.norm, residual(&p.unrounded(), x, f)?.view(), w)?,
    }; // R2
    Ok((s, y))
}

impl AddRmsNorm {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, eps: f64, eps_place: EpsPlace) -> Self {
        let (residual, norm) = (Residual::under(contract), RmsNorm::under(contract, eps, eps_place));
        AddRmsNorm { residual, norm, input: contract.norm_input }
    }

    /// Those of the parts.
    pub fn check(&self, x: (usize, usize), f: (usize, usize), w: usize) -> Result<(), ContractError> {
        self.residual.check(x, f)?;
        self.norm.check(x, w)
    }

    /// The addition without R1.
    fn unrounded(&self) -> Residual {
        Residual { output: Rounding::NONE, ..self.residual }
    }

    /// The bounds of s and y: that of what the norm reads is its input error.
    pub fn bound(
        &self,
        x: &Tracked<f64>,
        f: &Tracked<f64>,
        w: ArrayView1<'_, f64>,
        (s, y): (&Array2<f64>, &Array2<f64>),
    ) -> (ErrorBound, ErrorBound) {
        let of_sum = self.residual.bound(x, f, s);
        let of_read = match self.input {
            NormInput::Stored => of_sum.clone(),
            NormInput::Sum | NormInput::Fused => self.unrounded().bound(x, f, s),
        };
        let read = Tracked { value: s.clone(), error: Some(of_read) };
        (of_sum, self.norm.bound(&read, w, y))
    }
}
