//! Hybrid attention: the first heads see the tokens of a window, the others all tokens before them.
//!
//! ```text
//! o(h) = attention(q(h); k, v) over i − w < j ≤ i for h < L, over j ≤ i for h ≥ L
//! ```
//!
//! - Shapes: q and o \[n, H·d\], k and v \[s, G·d\], as `attention` has them.
//! - Dtypes: as `attention`.
//! - Rounding: as `attention`.
//! - Errors: C1 L ≤ H, whole groups of H/G heads, so that each key head is read by heads of one kind; C2 w ≥ 1; and
//!   `attention`'s.
//! - Bound: that of `attention`, of the heads of each kind.
//! - Variants: L = 0 is `attention`, and L = H sliding-window attention; a model whose layers differ in L is a hybrid of layers.
//! - Source: document 000, CH1.4 and CH3.1, which states what was tried for M2, and no sizes: the released models have L = 0.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, s};

use super::attention::{Attention, attention};
use crate::bound::ErrorBound;
use crate::error::require;
use crate::tracked::Tracked;
use crate::{ContractError, Real};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HybridAttention {
    /// Of the heads that see all, and their number and that of key heads with the others.
    pub full: Attention,
    /// L.
    pub local_heads: usize,
    /// w.
    pub window: usize,
}

/// Heads of one kind.
struct Kind {
    attention: Attention,
    queries: Range<usize>,
    keys: Range<usize>,
}

/// o of q, k and v.
pub fn hybrid_attention<T: Real>(
    p: &HybridAttention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
    v: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim(), v.dim())?;
    let mut o = Array2::zeros(q.dim());
    for Kind { attention: own, queries, keys } in p.kinds() {
        let (queries, keys) = (s![.., queries], s![.., keys]);
        o.slice_mut(queries).assign(&attention(&own, q.slice(queries), k.slice(keys), v.slice(keys))?);
    }
    Ok(o)
}

impl HybridAttention {
    /// C1 and C2, and those of attention.
    pub fn check(&self, q: (usize, usize), k: (usize, usize), v: (usize, usize)) -> Result<(), ContractError> {
        let Attention { query_heads, key_heads, .. } = self.full;
        self.full.check(q, k, v)?;
        let (local, each) = (self.local_heads, query_heads / key_heads);
        let expected = format!("a multiple of the {each} heads that share keys, up to H = {query_heads}");
        require(local <= query_heads && local.is_multiple_of(each), "hybrid_attention C1", "L", local, expected)?;
        require(1 <= self.window, "hybrid_attention C2", "w", self.window, "at least 1")
    }

    /// Where the heads of each kind are, of those kinds that there are.
    fn kinds(&self) -> impl Iterator<Item = Kind> {
        let HybridAttention { full, local_heads, window } = *self;
        let each = full.query_heads / full.key_heads;
        let kind = move |heads: Range<usize>, window: Option<usize>| {
            let (query_heads, keys) = (heads.len(), heads.start / each..heads.end / each);
            let attention = Attention { query_heads, key_heads: keys.len(), window, ..full };
            let columns = |heads: Range<usize>| heads.start * full.head_dim..heads.end * full.head_dim;
            (query_heads > 0).then(|| Kind { attention, queries: columns(heads), keys: columns(keys) })
        };
        [kind(0..local_heads, Some(window)), kind(local_heads..full.query_heads, full.window)].into_iter().flatten()
    }

    /// Of o, of an input that was checked.
    pub fn bound(&self, q: &Tracked<f64>, k: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let mut error = ErrorBound::exact(o.dim());
        for Kind { attention, queries, keys } in self.kinds() {
            let (k, v) = (k.columns(keys.clone()), v.columns(keys));
            let own = o.slice(s![.., queries.clone()]).to_owned();
            let own = attention.bound(&q.columns(queries.clone()), &k, &v, &own);
            error.certain.slice_mut(s![.., queries.clone()]).assign(&own.certain);
            error.sigma.slice_mut(s![.., queries]).assign(&own.sigma);
            error.carried = error.carried.max(own.carried);
        }
        error
    }
}
