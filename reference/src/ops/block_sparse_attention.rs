//! Block-sparse attention: each token's softmax-weighted mean of the values in the blocks chosen for it.
//!
//! ```text
//! o(h,i) = attention(q(h,i); k(g,J), v(g,J))        J = the j ≤ pᵢ with ⌊j/b⌋ in C(g,i)        g = ⌊h·G/H⌋
//! ```
//!
//! - Shapes: q \[n, H·d\], k and v \[s, G·d\], o \[n, H·d\]; row i of q is at position pᵢ = s − n + i. C \[n·G, K\], row
//!   i·G + g token i's for group g.
//! - Dtypes: as `attention`; C whole numbers, or none.
//! - Rounding: as `attention`.
//! - Errors: C1 rows of C = n·G; C2 each block is one of ⌈s/b⌉, and once in its row; C3 b ≥ 1; and `attention`'s.
//! - Variants: those of `attention`. Slips of ports: J is all of the chosen blocks, or all j ≤ pᵢ; C(h mod G, i). A token
//!   that would see nothing weighs all s alike.
//! - Source: spec A16; `MiniMaxM3VLIndexer.build_block_mask` in transformers 5.23, which masks what is gathered here.

use std::convert::Infallible;

use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use super::attention::{self, Attention, attention};
use crate::bound::ErrorBound;
use crate::error::require;
use crate::semantics::{Causal, KeyHead, MsaMask};
use crate::tracked::Tracked;
use crate::{ContractError, Real};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockSparseAttention {
    /// Of the attention to what is chosen.
    pub attention: Attention,
    /// b.
    pub block: usize,
    /// What of a chosen block a token sees.
    pub mask: MsaMask,
    /// Which group's blocks a query head reads.
    pub group: KeyHead,
}

/// One query of one head, and the keys that it sees.
struct Query {
    row: usize,
    head: usize,
    /// J.
    keys: Vec<usize>,
    /// Whether these were not chosen, and weigh alike.
    alike: bool,
}

/// o of q, k, v and C.
pub fn block_sparse_attention<T: Real>(
    p: &BlockSparseAttention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
    v: ArrayView2<'_, T>,
    chosen: ArrayView2<'_, Option<usize>>,
) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim(), v.dim(), chosen)?;
    let mut o = Array2::zeros(q.dim());
    p.for_each_query(k.nrows(), chosen, [&mut o], |query, [mut o]| {
        let [mine, keys, values] = p.gather([q, k, v], query);
        o.assign(&attention(&p.one(), mine.view(), keys.view(), values.view())?);
        Ok::<(), ContractError>(())
    })?;
    Ok(o)
}

/// Attention's p of q, k and C \[H·n, s\], 0 where masked.
pub fn probabilities<T: Real>(
    p: &BlockSparseAttention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
    chosen: ArrayView2<'_, Option<usize>>,
) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim(), k.dim(), chosen)?;
    let n = q.nrows();
    let mut all = Array2::zeros((p.attention.query_heads * n, k.nrows()));
    for (row, mut out) in all.rows_mut().into_iter().enumerate() {
        let query = p.query(k.nrows(), n, row % n, row / n, chosen);
        let [mine, keys, _] = p.gather([q, k, k], &query);
        let shown = attention::probabilities(&p.one(), mine.view(), keys.view())?;
        query.keys.iter().zip(&shown).for_each(|(&key, &shown)| out[key] = shown);
    }
    Ok(all)
}

impl BlockSparseAttention {
    /// C1 to C3, and those of `attention`.
    pub fn check(
        &self,
        q: (usize, usize),
        k: (usize, usize),
        v: (usize, usize),
        chosen: ArrayView2<'_, Option<usize>>,
    ) -> Result<(), ContractError> {
        self.attention.check(q, k, v)?;
        let (rows, groups) = (chosen.nrows(), self.attention.key_heads);
        require(
            rows == q.0 * groups,
            "block_sparse_attention C1",
            "rows of C",
            rows,
            format!("n·G = {}", q.0 * groups),
        )?;
        require(self.block >= 1, "block_sparse_attention C3", "b", self.block, "at least 1")?;
        let count = k.0.div_ceil(self.block);
        for (row, blocks) in chosen.rows().into_iter().enumerate() {
            for (slot, block) in blocks.iter().enumerate() {
                let Some(block) = block else { continue };
                let once = *block < count && !blocks.iter().take(slot).any(|other| *other == Some(*block));
                let place = format!("C[{row}, {slot}]");
                let expected = format!("one of {count} blocks, once in its row");
                require(once, "block_sparse_attention C2", &place, block, expected)?;
            }
        }
        Ok(())
    }

    /// That of `attention` to what is gathered.
    pub fn bound(
        &self,
        q: &Tracked<f64>,
        k: &Tracked<f64>,
        v: &Tracked<f64>,
        chosen: ArrayView2<'_, Option<usize>>,
        o: &Array2<f64>,
    ) -> ErrorBound {
        let mut error = ErrorBound::exact(o.dim());
        let errors = [q, k, v].map(Tracked::error_or_exact);
        let inexact = u32::from(errors.iter().any(|error| !error.is_exact()));
        error.carried = errors.iter().map(|error| error.carried).max().unwrap_or(0) + inexact;
        let ErrorBound { certain, sigma, .. } = &mut error;
        let made = self.for_each_query(k.dim().0, chosen, [certain, sigma], |query, [mut certain, mut sigma]| {
            let values = self.gather([q.view(), k.view(), v.view()], query);
            let of_certain = self.gather(errors.each_ref().map(|error| error.certain.view()), query);
            let of_sigma = self.gather(errors.each_ref().map(|error| error.sigma.view()), query);
            let tracked = |i: usize| Tracked {
                value: values[i].clone(),
                error: Some(ErrorBound { certain: of_certain[i].clone(), sigma: of_sigma[i].clone(), carried: 0 }),
            };
            let own = o.slice(s![query.row..=query.row, self.attention.columns(query.head)]).to_owned();
            let part = self.one().bound(&tracked(0), &tracked(1), &tracked(2), &own);
            certain.assign(&part.certain);
            sigma.assign(&part.sigma);
            Ok::<(), Infallible>(())
        });
        made.unwrap_or_else(|never| match never {});
        error
    }

    /// Of the probabilities: those of attention to what is gathered.
    pub fn bound_probabilities(
        &self,
        q: &Tracked<f64>,
        k: &Tracked<f64>,
        chosen: ArrayView2<'_, Option<usize>>,
        shown: &Array2<f64>,
    ) -> ErrorBound {
        let (n, s) = (q.dim().0, k.dim().0);
        let errors = [q, k].map(Tracked::error_or_exact);
        let mut error = ErrorBound::exact(shown.dim());
        let inexact = u32::from(errors.iter().any(|error| !error.is_exact()));
        error.carried = errors.iter().map(|error| error.carried).max().unwrap_or(0) + inexact;
        for row in 0..shown.nrows() {
            let query = self.query(s, n, row % n, row / n, chosen);
            let part = |of: [&Array2<f64>; 2]| {
                let [own, keys, _] = self.gather([of[0].view(), of[1].view(), of[1].view()], &query);
                [own, keys]
            };
            let [value, certain, sigma] = [
                part([&q.value, &k.value]),
                part([&errors[0].certain, &errors[1].certain]),
                part([&errors[0].sigma, &errors[1].sigma]),
            ];
            let tracked = |i: usize| Tracked {
                value: value[i].clone(),
                error: Some(ErrorBound { certain: certain[i].clone(), sigma: sigma[i].clone(), carried: 0 }),
            };
            let own = shown.row(row).select(Axis(0), &query.keys).insert_axis(Axis(0));
            let of_keys = self.one().bound_probabilities(&tracked(0), &tracked(1), &own);
            for (i, &key) in query.keys.iter().enumerate() {
                (error.certain[[row, key]], error.sigma[[row, key]]) = (of_keys.certain[[0, i]], of_keys.sigma[[0, i]]);
            }
        }
        error
    }

    /// Of one query of one head, to all keys that it is given.
    fn one(&self) -> Attention {
        Attention {
            query_heads: 1,
            key_heads: 1,
            key_head: KeyHead::Grouped,
            causal: Causal::Inclusive,
            ..self.attention
        }
    }

    /// The rows of q, k and v that a query needs.
    fn gather<T: Real>(&self, [q, k, v]: [ArrayView2<'_, T>; 3], query: &Query) -> [Array2<T>; 3] {
        let own = q.slice(s![query.row..=query.row, self.attention.columns(query.head)]);
        let columns = self.attention.columns(self.attention.key_head(query.head));
        let rows = |x: ArrayView2<'_, T>| x.slice(s![.., columns.clone()]).select(Axis(0), &query.keys);
        let own = if query.alike { Array2::zeros(own.dim()) } else { own.to_owned() };
        [own, rows(k), rows(v)]
    }

    /// J of one query of one head.
    fn query(&self, s: usize, n: usize, row: usize, head: usize, chosen: ArrayView2<'_, Option<usize>>) -> Query {
        let groups = self.attention.key_heads;
        let group = match self.group {
            KeyHead::Grouped => head / (self.attention.query_heads / groups),
            KeyHead::Tiled => head % groups,
        };
        let position = s - n + row;
        let visible = match (self.attention.causal, self.mask) {
            (Causal::Strict, _) if position == 0 => 0,
            (_, MsaMask::Token | MsaMask::All) => self.attention.seen(position, s),
            (_, MsaMask::Block) => ((position / self.block + 1) * self.block).min(s),
        };
        let mut blocks: Vec<usize> = chosen.row(row * groups + group).iter().copied().flatten().collect();
        blocks.sort_unstable();
        let of_block = |block: usize| block * self.block..((block + 1) * self.block).min(visible);
        let keys: Vec<usize> = match self.mask {
            MsaMask::All => (0..visible).collect(),
            MsaMask::Token | MsaMask::Block => blocks.into_iter().flat_map(of_block).collect(),
        };
        let alike = keys.is_empty();
        Query { row, head, keys: if alike { (0..s).collect() } else { keys }, alike }
    }

    /// Calls `f` with each query of each head and its part of `out`, in parallel over the queries.
    fn for_each_query<T: Real, E: Send, const N: usize>(
        &self,
        s: usize,
        chosen: ArrayView2<'_, Option<usize>>,
        out: [&mut Array2<T>; N],
        f: impl Fn(&Query, [ArrayViewMut2<'_, T>; N]) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let n = out[0].nrows();
        let mut rows: Vec<Vec<ArrayViewMut2<'_, T>>> = (0..n).map(|_| Vec::new()).collect();
        for out in out {
            rows.iter_mut().zip(out.axis_chunks_iter_mut(Axis(0), 1)).for_each(|(row, part)| row.push(part));
        }
        rows.into_par_iter().enumerate().try_for_each(|(row, mut parts)| {
            for head in 0..self.attention.query_heads {
                let columns = self.attention.columns(head);
                let mut parts = parts.iter_mut().map(|part| part.slice_mut(s![.., columns.clone()]));
                let parts = std::array::from_fn(|_| parts.next().expect("a part of each"));
                f(&self.query(s, n, row, head, chosen), parts)?;
            }
            Ok(())
        })
    }
}
