//! The error bounds of block-sparse attention: those of attention to what is gathered, one token at a time.

use ndarray::{Array2, ArrayView2, Axis};

use super::{BlockSparseAttention, Share};
use crate::bound::ErrorBound;
use crate::ops::attention::Attention;
use crate::semantics::{Causal, KeyHead};
use crate::tracked::Tracked;

impl BlockSparseAttention {
    /// Of o.
    pub fn bound(
        &self,
        q: &Tracked<f64>,
        k: &Tracked<f64>,
        v: &Tracked<f64>,
        chosen: ArrayView2<'_, Option<usize>>,
        o: &Array2<f64>,
    ) -> ErrorBound {
        let errors = [q, k, v].map(Tracked::error_or_exact);
        let carried = ErrorBound::carried_through(&errors.each_ref());
        let mut error = ErrorBound { carried, ..ErrorBound::exact(o.dim()) };
        let ErrorBound { certain, sigma, .. } = &mut error;
        let s = k.dim().0;
        self.for_each_share(s, chosen, [certain, sigma], |queries| {
            let [qe, ke, ve] = &errors;
            let q = gathered(q, qe, |x| one_row(self.gather_queries(x, queries)));
            let Share { key_head, value_head, .. } = *queries.share;
            let each = [(k, ke, key_head), (v, ve, value_head)];
            let [k, v] = each.map(|(x, e, head)| gathered(x, e, |x| self.gather_keys(x, head, queries)));
            let own = self.gather_heads(o.view(), queries);
            let heads = own.dim();
            let part = self.alone(queries.share, s).bound(&q, &k, &v, &one_row(own));
            [part.certain, part.sigma].map(|part| part.into_shape_with_order(heads).expect("as many values"))
        });
        error
    }

    /// Of the probabilities.
    pub fn bound_probabilities(
        &self,
        q: &Tracked<f64>,
        k: &Tracked<f64>,
        chosen: ArrayView2<'_, Option<usize>>,
        shown: &Array2<f64>,
    ) -> ErrorBound {
        let (n, s) = (q.dim().0, k.dim().0);
        let errors = [q, k].map(Tracked::error_or_exact);
        let carried = ErrorBound::carried_through(&errors.each_ref());
        let mut error = ErrorBound { carried, ..ErrorBound::exact(shown.dim()) };
        let shares = self.shares();
        for (row, share) in (0..n).flat_map(|row| shares.iter().map(move |share| (row, share))) {
            let queries = self.queries((n, s), row, share, chosen);
            let q = gathered(q, &errors[0], |x| one_row(self.gather_queries(x, &queries)));
            let k = gathered(k, &errors[1], |x| self.gather_keys(x, share.key_head, &queries));
            let rows: Vec<usize> = share.heads.iter().map(|head| head * n + row).collect();
            let keys: Vec<usize> = queries.keys.iter().cloned().flatten().collect();
            let own = shown.select(Axis(0), &rows).select(Axis(1), &keys);
            let part = self.alone(share, s).bound_probabilities(&q, &k, &own);
            queries.scatter(n, &part.certain, &mut error.certain);
            queries.scatter(n, &part.sigma, &mut error.sigma);
        }
        error
    }

    /// Attention of one token's heads of one share to all keys that it is given, of so many.
    fn alone(&self, share: &Share, keys: usize) -> Attention {
        Attention {
            query_heads: share.heads.len(),
            key_heads: 1,
            key_head: KeyHead::Grouped,
            tiled: None,
            causal: Causal::Inclusive,
            window: None,
            prefix: None,
            lost: None,
            unseen: None,
            sink: self.attention.beside(keys),
            zeros: None,
            ..self.attention
        }
    }
}

/// What `gather` takes of a value, and of its error.
fn gathered(x: &Tracked<f64>, e: &ErrorBound, gather: impl Fn(ArrayView2<'_, f64>) -> Array2<f64>) -> Tracked<f64> {
    let error = ErrorBound { certain: gather(e.certain.view()), sigma: gather(e.sigma.view()), carried: 0 };
    Tracked { value: gather(x.view()), error: Some(error) }
}

/// The heads of a token side by side.
fn one_row(heads: Array2<f64>) -> Array2<f64> {
    let all = heads.len();
    heads.into_shape_with_order((1, all)).expect("as many values")
}
