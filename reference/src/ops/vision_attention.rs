//! Vision attention: each patch's softmax-weighted mean of the values of its own image, earlier and later.
//!
//! ```text
//! o(h,i) = Σⱼ ρ(p(h,i,j))·v(h,j)        p = softmax over j in S(i) of σ·q(h,i)·k(h,j)
//! ```
//!
//! - Shapes: q, k, v and o \[n, H·d\]; S(i) the segment that has row i, a run of rows.
//! - Dtypes: as `attention`.
//! - Rounding: as `attention`.
//! - Errors: C1 rows of k and v = n; C2 no segment is empty; C3 the segments' rows add up to n; and `attention`'s.
//! - Variants: D48 S(i) is all n rows. Slips of ports: rows after i are left out; segments are single frames, which the
//!   caller says.
//! - Source: spec A22; `MiniMaxM3VLVisionAttention` in transformers 5.23. As many key heads as query heads.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, s};

use super::attention::{Attention, attention};
use crate::bound::ErrorBound;
use crate::error::require;
use crate::semantics::{Causal, VisionSpan};
use crate::tracked::Tracked;
use crate::{ContractError, Real, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VisionAttention {
    /// Of each segment.
    pub attention: Attention,
    /// D48.
    pub span: VisionSpan,
}

/// o of q, k and v, whose segments have so many rows each.
pub fn vision_attention<T: Real>(
    p: &VisionAttention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
    v: ArrayView2<'_, T>,
    segments: &[usize],
) -> Result<Array2<T>, ContractError> {
    p.check(q.nrows(), k.nrows(), segments)?;
    p.attention.check(q.dim(), k.dim(), v.dim())?;
    let mut o = Array2::zeros(q.dim());
    for rows in p.runs(q.nrows(), segments) {
        let rows = s![rows, ..];
        let part = attention(&p.attention, q.slice(rows), k.slice(rows), v.slice(rows))?;
        o.slice_mut(rows).assign(&part);
    }
    Ok(o)
}

impl VisionAttention {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, heads: usize, head_dim: usize, span: VisionSpan) -> Self {
        let causal = if span == VisionSpan::Causal { Causal::Inclusive } else { Causal::All };
        let attention = Attention { causal, ..Attention::under(contract, (heads, heads), head_dim) };
        VisionAttention { attention, span }
    }

    /// With scores scaled by another number than 1/√d, if there is one.
    #[must_use]
    pub fn scaled(self, scale: Option<f64>) -> Self {
        let scale = scale.unwrap_or(self.attention.scale);
        VisionAttention { attention: Attention { scale, ..self.attention }, ..self }
    }

    /// C1 to C3.
    pub fn check(&self, n: usize, keys: usize, segments: &[usize]) -> Result<(), ContractError> {
        require(keys == n, "vision_attention C1", "rows of k", keys, format!("n = {n}"))?;
        for (i, &rows) in segments.iter().enumerate() {
            require(rows >= 1, "vision_attention C2", &format!("rows of segment {i}"), rows, "at least 1")?;
        }
        let rows: usize = segments.iter().sum();
        require(rows == n, "vision_attention C3", "rows of all segments", rows, format!("n = {n}"))
    }

    /// S.
    fn runs(&self, n: usize, segments: &[usize]) -> Vec<Range<usize>> {
        let mut first = 0;
        let own = segments.iter().map(|rows| {
            first += rows;
            first - rows..first
        });
        match self.span {
            VisionSpan::Segmented | VisionSpan::Frame | VisionSpan::Causal => own.collect(),
            VisionSpan::Global => std::iter::once(0..n).collect(),
        }
    }

    /// `attention`'s, segment by segment.
    pub fn bound(
        &self,
        q: &Tracked<f64>,
        k: &Tracked<f64>,
        v: &Tracked<f64>,
        segments: &[usize],
        o: &Array2<f64>,
    ) -> ErrorBound {
        let mut error = ErrorBound::exact(o.dim());
        for rows in self.runs(o.nrows(), segments) {
            let [q, k, v] = [q, k, v].map(|x| x.rows(rows.clone()));
            let part = self.attention.bound(&q, &k, &v, &o.slice(s![rows.clone(), ..]).to_owned());
            error.certain.slice_mut(s![rows.clone(), ..]).assign(&part.certain);
            error.sigma.slice_mut(s![rows, ..]).assign(&part.sigma);
            error.carried = error.carried.max(part.carried);
        }
        error
    }
}
