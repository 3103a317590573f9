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
//! - Variants: those of `attention`. Slips of ports: J is all of the chosen blocks, or all j ≤ pᵢ; it has those of ⌊pᵢ/b⌋
//!   twice; C(h mod G, i); row g·n + i of C for token i, or C's rows as if token i's choice were kept at row g·n + i and
//!   read at i·G + g; ⌊(j − z)/b⌋, at least 0, in C for a shift of z, and j = pᵢ in any case. A token that would see
//!   nothing weighs all s alike.
//! - Source: spec A16; `MiniMaxM3VLIndexer.build_block_mask` in transformers 5.23, which masks what is gathered here.

mod bound;

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, concatenate, s, stack};

use super::attention::tiles::pieces;
use super::attention::{Attention, Softmax};
use crate::error::require;
use crate::order::Tiles;
use crate::parallel;
use crate::semantics::{Causal, KeyHead, MsaLayout, MsaMask, MsaOwn};
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
    /// How often it sees its own block.
    pub own: MsaOwn,
    /// Which group's blocks a query head reads.
    pub group: KeyHead,
    /// Which row of C is whose.
    pub layout: MsaLayout,
    /// By how many keys blocks are off.
    pub shift: Option<i32>,
}

/// Heads that read the same key head and the same choice.
struct Share {
    heads: Vec<usize>,
    key_head: usize,
    value_head: usize,
    group: usize,
}

/// A token's queries of one share, and the keys that they see.
struct Queries<'s> {
    row: usize,
    share: &'s Share,
    /// J, as runs.
    keys: Vec<Range<usize>>,
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
    let (keys, values) = (p.attention.by_head(k, q.nrows()), p.attention.by_head(v, q.nrows()));
    p.for_each_share(k.nrows(), chosen, [&mut o], |queries| {
        let (k, v) = (keys[queries.share.key_head].view(), values[queries.share.value_head].view());
        if let Some(tiles) = p.attention.tiles {
            return [p.over_tiles(tiles, p.gather_queries(q, queries), [k, v], &queries.keys)];
        }
        let softmax = p.softmax(q, k, queries);
        let values = || {
            let runs: Vec<_> = queries.keys.iter().map(|run| v.slice_move(s![run.clone(), ..])).collect();
            concatenate(Axis(0), &runs).expect("each has d columns").into()
        };
        [p.attention.mean(&softmax, |w| p.attention.product_with(w, v, &queries.keys), values)]
    });
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
    let (n, s) = (q.nrows(), k.nrows());
    let mut all = Array2::zeros((p.attention.query_heads * n, s));
    let shares = p.shares();
    for (row, share) in (0..n).flat_map(|row| shares.iter().map(move |share| (row, share))) {
        let queries = p.queries((n, s), row, share, chosen);
        let keys = p.attention.head(k, share.key_head);
        let shown = p.softmax(q, keys, &queries).probabilities(p.attention.rounded_probabilities());
        queries.scatter(n, &shown, &mut all);
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
        Self::check_shapes(&self.attention, self.block, [q, k, v], chosen.nrows())?;
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

    /// C1 and C3, and those of `attention`: what the rows of C and the shapes of q, k and v tell without values.
    pub fn check_shapes(
        attention: &Attention,
        block: usize,
        [q, k, v]: [(usize, usize); 3],
        rows: usize,
    ) -> Result<(), ContractError> {
        attention.check(q, k, v)?;
        let expected = q.0 * attention.key_heads;
        require(rows == expected, "block_sparse_attention C1", "rows of C", rows, format!("n·G = {expected}"))?;
        require(block >= 1, "block_sparse_attention C3", "b", block, "at least 1")
    }

    /// Heads by what they read.
    fn shares(&self) -> Vec<Share> {
        let groups = self.attention.key_heads;
        let mut shares = BTreeMap::<_, Vec<usize>>::new();
        for head in 0..self.attention.query_heads {
            let group = match self.group {
                KeyHead::Grouped => head / (self.attention.query_heads / groups),
                KeyHead::Tiled => head % groups,
            };
            let of = (self.attention.key_head(head), self.attention.value_head(head), group);
            shares.entry(of).or_default().push(head);
        }
        let share = |((key_head, value_head, group), heads)| Share { heads, key_head, value_head, group };
        shares.into_iter().map(share).collect()
    }

    /// J of one token of n for one share.
    fn queries<'s>(
        &self,
        (n, s): (usize, usize),
        row: usize,
        share: &'s Share,
        chosen: ArrayView2<'_, Option<usize>>,
    ) -> Queries<'s> {
        let position = s - n + row;
        let visible = match (self.attention.causal, self.mask) {
            (Causal::Strict, _) if position == 0 => 0,
            // What later tokens are masked by here is `mask` alone.
            (Causal::All, MsaMask::Token | MsaMask::All) => position + 1,
            (Causal::Call, _) | (_, MsaMask::Token | MsaMask::All) => self.attention.seen(position, s),
            (_, MsaMask::Block) => ((position / self.block + 1) * self.block).min(s),
        };
        let blocks = chosen.row(match self.layout {
            MsaLayout::TokenMajor => row * self.attention.key_heads + share.group,
            MsaLayout::HeadMajor => share.group * n + row,
            MsaLayout::Transposed => {
                let place = row * self.attention.key_heads + share.group;
                place % n * self.attention.key_heads + place / n
            }
        });
        let mut blocks: Vec<usize> = blocks.iter().copied().flatten().collect();
        blocks.sort_unstable();
        let own = position / self.block;
        if self.own == MsaOwn::Twice && blocks.contains(&own) {
            blocks.push(own);
        }
        let first = self.attention.first_seen(position);
        let of_block = |block: usize| {
            let start = if block == 0 { 0 } else { self.shifted(block * self.block) };
            let keys = start..self.shifted((block + 1) * self.block);
            keys.start.max(first)..keys.end.min(visible)
        };
        // Of blocks that are off, the own key is seen in any case.
        let itself = self.shift.map(|_| position..position + 1);
        let keys: Vec<Range<usize>> = match self.mask {
            MsaMask::All => iter::once(first..visible).collect(),
            MsaMask::Token | MsaMask::Block => with(blocks.into_iter().map(of_block).collect(), itself),
        };
        let keys = keys.into_iter().filter(|run| !run.is_empty());
        let keys: Vec<Range<usize>> = joined(keys.flat_map(|run| self.attention.without_lost(run, position)));
        let alike = keys.is_empty();
        Queries { row, share, keys: if alike { iter::once(0..s).collect() } else { keys }, alike }
    }

    /// A key that blocks would begin at, if they were not off.
    fn shifted(&self, key: usize) -> usize {
        let by = self.shift.unwrap_or(0);
        if by < 0 { key.saturating_sub(by.unsigned_abs() as usize) } else { key + by.unsigned_abs() as usize }
    }

    /// The softmax of a token's queries of one share, a row a head; k is the share's head alone.
    fn softmax<T: Real>(&self, q: ArrayView2<'_, T>, k: ArrayView2<'_, T>, queries: &Queries<'_>) -> Softmax<T> {
        let q = self.gather_queries(q, queries);
        let count = queries.keys.iter().map(Range::len).sum();
        let mut scores = Array2::zeros((q.nrows(), count));
        let mut first = 0;
        for run in &queries.keys {
            let keys = k.slice(s![run.clone(), ..]);
            let part = self.attention.product(q.view(), keys.reversed_axes());
            scores.slice_mut(s![.., first..first + run.len()]).assign(&part);
            first += run.len();
        }
        let columns: Vec<usize> = queries.keys.iter().cloned().flatten().collect();
        let by = |column: usize| self.attention.exponential.of_key(columns[column], k.nrows());
        self.attention.softmax_of(scores, k.nrows(), |_| Vec::new(), (|_| 0..count, by))
    }

    /// o of rows of queries that see the same runs of keys, of which each block is cut into tiles of its own.
    fn over_tiles<T: Real>(
        &self,
        tiles: Tiles,
        q: Array2<T>,
        [k, v]: [ArrayView2<'_, T>; 2],
        keys: &[Range<usize>],
    ) -> Array2<T> {
        let blocks = || keys.iter().flat_map(|run| pieces(run.clone(), self.block));
        let rows: Vec<_> =
            q.rows().into_iter().map(|q| self.attention.over_tiles(tiles, q, [k, v], blocks())).collect();
        stack(Axis(0), &rows.iter().map(|row| row.view()).collect::<Vec<_>>()).expect("each has d columns")
    }

    /// The heads of q that a share has, a row a head.
    fn gather_queries<T: Real>(&self, q: ArrayView2<'_, T>, queries: &Queries<'_>) -> Array2<T> {
        if queries.alike {
            return Array2::zeros((queries.share.heads.len(), self.attention.head_dim));
        }
        self.gather_heads(q, queries)
    }

    /// Some heads of a token, a row a head.
    fn gather_heads<T: Real>(&self, x: ArrayView2<'_, T>, queries: &Queries<'_>) -> Array2<T> {
        let head = |&head: &usize| x.slice_move(s![queries.row, self.attention.columns(head)]);
        let heads: Vec<ArrayView1<'_, T>> = queries.share.heads.iter().map(head).collect();
        stack(Axis(0), &heads).expect("each has d columns")
    }

    /// The rows of a head of k or v that queries see.
    fn gather_keys<T: Real>(&self, x: ArrayView2<'_, T>, head: usize, queries: &Queries<'_>) -> Array2<T> {
        let x = self.attention.head(x, head);
        let runs: Vec<ArrayView2<'_, T>> = queries.keys.iter().map(|run| x.slice_move(s![run.clone(), ..])).collect();
        concatenate(Axis(0), &runs).expect("each has d columns")
    }

    /// Puts into each of `out` what `f` gives for a token's queries of one share, a row a head. Each sees so many keys at most.
    fn for_each_share<T: Real, const N: usize>(
        &self,
        s: usize,
        chosen: ArrayView2<'_, Option<usize>>,
        out: [&mut Array2<T>; N],
        f: impl Fn(&Queries<'_>) -> [Array2<T>; N] + Sync,
    ) {
        let (n, shares, multiplications) = (out[0].nrows(), self.shares(), out[0].len() * s);
        let mut rows: Vec<Vec<ArrayViewMut1<'_, T>>> = (0..n).map(|_| Vec::new()).collect();
        for out in out {
            rows.iter_mut().zip(out.rows_mut()).for_each(|(row, part)| row.push(part));
        }
        parallel::for_each(rows.into_iter().enumerate(), multiplications, |(row, mut parts)| {
            for share in &shares {
                let made = f(&self.queries((n, s), row, share, chosen));
                for (part, made) in parts.iter_mut().zip(&made) {
                    for (&head, made) in share.heads.iter().zip(made.rows()) {
                        part.slice_mut(s![self.attention.columns(head)]).assign(&made);
                    }
                }
            }
        });
    }
}

/// Runs in order with one key, if none of them has it.
fn with(mut runs: Vec<Range<usize>>, key: Option<Range<usize>>) -> Vec<Range<usize>> {
    if let Some(key) = key.filter(|key| !runs.iter().any(|run| run.contains(&key.start))) {
        runs.push(key);
        runs.sort_unstable_by_key(|run| run.start);
    }
    runs
}

/// Runs in order, where one ends at the next's start as one: sums over all blocks are those over all keys.
fn joined(runs: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => joined.push(run),
        }
    }
    joined
}

impl Queries<'_> {
    /// Adds a row a head, a column a key that is seen, to rows of all heads of n tokens and columns of all keys.
    fn scatter<T: Real>(&self, n: usize, seen: &Array2<T>, all: &mut Array2<T>) {
        for (head, seen) in self.share.heads.iter().zip(seen.rows()) {
            let keys = self.keys.iter().cloned().flatten();
            keys.zip(seen).for_each(|(key, &seen)| all[[head * n + self.row, key]] += seen);
        }
    }
}
