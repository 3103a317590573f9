//! QK norm: RMSNorm of the query or key projection, over all heads of a token together or over each head.
//!
//! ```text
//! yᵢ = rms_norm(xᵢ; w)        over the whole row, or over each of its heads (D05)
//! ```
//!
//! - Shapes: x \[n, heads·d\], w \[heads·d\], or \[d\] for all heads alike, y \[n, heads·d\].
//! - Dtypes: as `rms_norm`.
//! - Rounding: R1 and R2 of `rms_norm`, by a precision's own field for them (`qk_rms`); neither where norm and rotation are
//!   one chain.
//! - Errors: C1 columns of x = heads·d; C2 len(w) = heads·d or d, where there is a norm; and `rms_norm`'s.
//! - Variants: D05 over what the mean square is taken. Slips of ports: over each device's part, as over heads of its width;
//!   another ε; a sum of squares that is divided by another number than there are channels.
//! - Source: spec A4, A5; `q_norm` and `k_norm` of `MiniMaxM2Attention` and `MiniMaxM3VLAttention` in transformers 5.23.
//!   "`per_layer`" in the config means one norm over a layer's whole projection.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, s};

use super::rms_norm::{RmsNorm, rms_norm};
use crate::bound::ErrorBound;
use crate::error::require;
use crate::order;
use crate::rounding::Chain;
use crate::semantics;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QkNorm {
    /// Of the norm.
    pub norm: RmsNorm,
    /// D05.
    pub over: semantics::QkNorm,
    /// d: channels of a head.
    pub head_dim: usize,
}

/// y of x and w.
pub fn qk_norm<T: Real>(p: &QkNorm, x: ArrayView2<'_, T>, w: ArrayView1<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(x.ncols(), w.len())?;
    let w = for_each_column(w, x.ncols());
    match p.over {
        semantics::QkNorm::FullProjection => rms_norm(&p.norm, x, w.view()),
        semantics::QkNorm::None => Ok(x.to_owned()),
        semantics::QkNorm::PerHead => {
            let mut y = Array2::zeros(x.dim());
            for head in p.heads(x.ncols()) {
                let part = rms_norm(&p.norm, x.slice(s![.., head.clone()]), w.slice(s![head.clone()]))?;
                y.slice_mut(s![.., head]).assign(&part);
            }
            Ok(y)
        }
    }
}

/// The weight of each column: a weight of one head is that of all.
fn for_each_column<T: Real>(w: ArrayView1<'_, T>, width: usize) -> Array1<T> {
    if w.is_empty() { w.to_owned() } else { (0..width).map(|column| w[column % w.len()]).collect() }
}

impl QkNorm {
    /// The roundings of a contract. Where norm and rotation are one chain, what is in between them is not stored.
    #[must_use]
    pub fn under(mut self, contract: &RoundingContract) -> Self {
        let own = RoundingContract { rms: contract.qk_rms, ..*contract };
        let order = contract.lanes(match self.over {
            semantics::QkNorm::FullProjection | semantics::QkNorm::None => order::PARITY.projection,
            semantics::QkNorm::PerHead => order::PARITY.head,
        });
        let norm = RmsNorm::under(&own, self.norm.eps, self.norm.eps_place).weighing(self.norm.weight);
        self.norm = RmsNorm { order, width: self.norm.width, ..norm.of_products(contract) };
        if contract.qk_norm == Chain::Once {
            (self.norm.normalized, self.norm.output) = (Rounding::NONE, Rounding::NONE);
        }
        self
    }

    /// C1 and C2.
    pub fn check(&self, width: usize, w: usize) -> Result<(), ContractError> {
        let d = self.head_dim;
        let whole = d >= 1 && width.is_multiple_of(d);
        require(whole, "qk_norm C1", "columns of x", width, format!("a multiple of d = {d}"))?;
        let fits = w == width || w == d || self.over == semantics::QkNorm::None;
        require(fits, "qk_norm C2", "len(w)", w, format!("columns of x = {width}, or d = {d}"))
    }

    /// That of `rms_norm` over the same channels.
    pub fn bound(&self, x: &Tracked<f64>, w: ArrayView1<'_, f64>, y: &Array2<f64>) -> ErrorBound {
        let w = for_each_column(w, y.ncols());
        match self.over {
            semantics::QkNorm::FullProjection => self.norm.bound(x, w.view(), y),
            semantics::QkNorm::None => x.error_or_exact(),
            semantics::QkNorm::PerHead => {
                let mut error = x.error_or_exact();
                for head in self.heads(y.ncols()) {
                    let columns = s![.., head.clone()];
                    let part =
                        self.norm.bound(&x.columns(head.clone()), w.slice(s![head]), &y.slice(columns).to_owned());
                    error.certain.slice_mut(columns).assign(&part.certain);
                    error.sigma.slice_mut(columns).assign(&part.sigma);
                }
                error
            }
        }
    }

    /// The columns of each head.
    fn heads(&self, width: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let d = self.head_dim;
        (0..width / d).map(move |head| head * d..(head + 1) * d)
    }
}
