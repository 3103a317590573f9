//! Patch embedding: a linear map of the pixels of each patch.
//!
//! ```text
//! yᵢⱼ = Σ ρ(xᵢ,ctpq) · ρ(wⱼ,ctpq)        over c < C, t < T, p < P, q < P
//! ```
//!
//! - Shapes: x \[n, C·T·P·P\], w \[m, C·T·P·P\], y \[n, m\]; column ((c·T + t)·P + p)·P + q is (c, t, p, q).
//! - Dtypes: x f32, w as stored, y bf16; the sum f32. Where a precision takes a convolution's operands in a type of their own
//!   (`convolved`), the caller narrows x, and w is held in it.
//! - Rounding: R1 at both ρ, to the activations' type; R2 at y.
//! - Errors: C1 columns of x = C·T·P·P; and `linear`'s.
//! - Variants: slips of ports: the columns of w are read as if they were (t, c, p, q), or those of x.
//! - Source: spec A21; `MiniMaxM3VLVisionEmbeddings` in transformers 5.23: a convolution whose stride is its kernel.

use ndarray::{Array2, ArrayView2, Axis, Zip};

use super::linear::{Linear, linear};
use crate::bound::ErrorBound;
use crate::config::Patch;
use crate::error::require;
use crate::matrix::Matrix;
use crate::semantics::PatchOrder;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PatchEmbedding {
    /// C, T and P.
    pub patch: Patch,
    /// How w is read.
    pub order: PatchOrder,
    /// R1 at x.
    pub pixels: Rounding,
    /// Of the sum, with R1 at w and R2.
    pub linear: Linear,
}

/// y of x and w.
pub fn patch_embedding<T: Real>(
    p: &PatchEmbedding,
    x: ArrayView2<'_, T>,
    w: &Matrix<'_>,
) -> Result<Array2<T>, ContractError> {
    p.check(x.ncols())?;
    let x = p.ordered(&x.mapv(|x| p.pixels.round(x))); // R1
    linear(&p.product(w), x.view(), w) // R1, R2
}

impl PatchEmbedding {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, patch: Patch, order: PatchOrder) -> Self {
        let linear = Linear { weight: contract.stored(), ..Linear::under(contract) };
        PatchEmbedding { patch, order, pixels: contract.stored(), linear }
    }

    /// C1.
    pub fn check(&self, columns: usize) -> Result<(), ContractError> {
        let (values, Patch { channels, frames, side }) = (self.patch.values(), self.patch);
        let expected = format!("C·T·P·P = {channels}·{frames}·{side}·{side} = {values}");
        require(columns == values, "patch_embedding C1", "columns of x", columns, expected)
    }

    /// R1 is nothing to a weight that is stored in no wider type.
    fn product(&self, w: &Matrix<'_>) -> Linear {
        let rounds = w.storage().unit_roundoff() < self.linear.weight.storage.unit_roundoff();
        Linear { weight: if rounds { self.linear.weight } else { Rounding::NONE }, ..self.linear }
    }

    /// x with its columns in the order in which w's are read.
    fn ordered<A: Clone>(&self, x: &Array2<A>) -> Array2<A> {
        let Patch { channels, frames, side } = self.patch;
        match self.order {
            PatchOrder::ColourFirst => x.clone(),
            PatchOrder::TimeFirst => x.select(Axis(1), &transposed([channels, frames], side * side)),
            PatchOrder::PixelsTimeFirst => x.select(Axis(1), &transposed([frames, channels], side * side)),
        }
    }

    /// `linear`'s, of pixels that R1 has rounded: one that its type holds, and that has no error, is not.
    pub fn bound(&self, x: &Tracked<f64>, w: &Matrix<'_>, y: &Array2<f64>) -> ErrorBound {
        let storage = self.pixels.storage;
        let mut error = x.error_or_exact();
        Zip::from(&mut error.certain).and(&mut error.sigma).and(&x.value).for_each(|certain, sigma, &x| {
            if *certain > 0.0 || !storage.holds(x) {
                let rounding = storage.rounding_error(x.abs() + *certain);
                *certain += rounding;
                *sigma = sigma.hypot(rounding).min(*certain);
            }
        });
        let error = ErrorBound {
            certain: self.ordered(&error.certain),
            sigma: self.ordered(&error.sigma),
            carried: error.carried,
        };
        self.product(w).bound(&Tracked { value: self.ordered(&x.value), error: Some(error) }, w, y)
    }
}

/// Runs of columns as they come column by column, if they come row by row.
fn transposed([rows, columns]: [usize; 2], run: usize) -> Vec<usize> {
    let of = |i: usize, j: usize| (0..run).map(move |k| (i * columns + j) * run + k);
    (0..columns).flat_map(|j| (0..rows).flat_map(move |i| of(i, j))).collect()
}
