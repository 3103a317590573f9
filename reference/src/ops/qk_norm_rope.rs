//! QK norm and RoPE: normalizes the query and key projections, rotates them, and keeps keys and values.
//!
//! ```text
//! q̃ᵢ = rope(qk_norm(qᵢ; w))        K[t] = rope(qk_norm(kᵢ; u))        V[t] = vᵢ        t = first + i
//! ```
//!
//! - Shapes: x \[n, (H + 2G)·d\], each row q, k and v; w \[H·d\], u \[G·d\], or \[d\] both; q̃ \[n, H·d\]; of K and V the rows from
//!   `first` on \[n, G·d\].
//! - Dtypes: as `qk_norm` and `rope`.
//! - Rounding: R1 at q̃ and K, `rope`'s R3 and R4; the norm's, where a contract stores what it says.
//! - Errors: C1 columns of x = (H + 2G)·d; and those of `qk_norm` and `rope`.
//! - Source: spec A4, A5, A6, A8; `MiniMaxM2Attention.forward` and `MiniMaxM3VLAttention.forward` in transformers 5.23.

use std::ops::Range;

use ndarray::{Array2, ArrayView1, ArrayView2, s};

use super::qk_norm::{QkNorm, qk_norm};
use super::rope::{Rope, RopeTable, rope};
use crate::bound::ErrorBound;
use crate::error::require;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QkNormRope {
    /// H.
    pub query_heads: usize,
    /// G.
    pub key_heads: usize,
    /// Of both norms.
    pub norm: QkNorm,
    /// Of both rotations.
    pub rope: Rope,
}

/// What becomes of a pass's projections.
#[derive(Debug, Clone, PartialEq)]
pub struct Heads<T> {
    /// q̃.
    pub queries: Array2<T>,
    /// The pass's rows of K.
    pub keys: Array2<T>,
    /// The pass's rows of V.
    pub values: Array2<T>,
}

/// q̃, K and V of x, w, u and the table.
pub fn qk_norm_rope<T: Real>(
    p: &QkNormRope,
    x: ArrayView2<'_, T>,
    [w, u]: [ArrayView1<'_, T>; 2],
    table: &RopeTable<T>,
) -> Result<Heads<T>, ContractError> {
    p.check(x.ncols())?;
    let [q, k, v] = p.columns().map(|columns| x.slice(s![.., columns]));
    let rotated = |x, w| {
        let y = qk_norm(&p.norm, x, w)?;
        rope(&p.rope, y.view(), table.cos.view(), table.sin.view()) // R1
    };
    Ok(Heads { queries: rotated(q, w)?, keys: rotated(k, u)?, values: v.to_owned() })
}

impl QkNormRope {
    /// The roundings of a contract.
    #[must_use]
    pub fn under(mut self, contract: &RoundingContract) -> Self {
        self.norm = self.norm.under(contract);
        self.rope = self.rope.under(contract);
        self
    }

    /// C1.
    pub fn check(&self, width: usize) -> Result<(), ContractError> {
        let expected = self.columns()[2].end;
        require(width == expected, "qk_norm_rope C1", "columns of x", width, format!("(H + 2G)·d = {expected}"))
    }

    /// The bounds of q̃ and K: the norm's is the rotation's input error. V is copied.
    pub fn bound(
        &self,
        x: &Tracked<f64>,
        weights: [ArrayView1<'_, f64>; 2],
        table: &RopeTable<f64>,
        heads: &Heads<f64>,
    ) -> Result<[ErrorBound; 2], ContractError> {
        let mut ideal = self.norm;
        (ideal.norm.normalized, ideal.norm.output) = (Rounding::NONE, Rounding::NONE);
        let rotated = |columns: Range<usize>, w: ArrayView1<'_, f64>, rotated: &Array2<f64>| {
            let x = x.columns(columns);
            let value = qk_norm(&ideal, x.view(), w)?;
            let error = Some(self.norm.bound(&x, w, &value));
            Ok(self.rope.bound(&Tracked { value, error }, table, rotated))
        };
        let ([q, k, _], [w, u]) = (self.columns(), weights);
        Ok([rotated(q, w, &heads.queries)?, rotated(k, u, &heads.keys)?])
    }

    /// The columns of q, k and v in a row of x.
    fn columns(&self) -> [Range<usize>; 3] {
        let d = self.norm.head_dim;
        let (q, k) = (self.query_heads * d, self.key_heads * d);
        [0..q, q..q + k, q + k..q + 2 * k]
    }
}
