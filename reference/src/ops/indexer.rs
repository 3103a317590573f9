//! Indexer: scores every visible token for each group of heads, and chooses the blocks of keys of largest score.
//!
//! ```text
//! s(h,i,j) = σ·q(h,i)·k(j) for j ≤ pᵢ, else −∞        m(h,i,c) = max of s(h,i,j) over b·c ≤ j < b·(c + 1)
//! C(h,i) = the K blocks c of largest m(h,i,c), those of m = −∞ left out, where m = ∞ for c = ⌊pᵢ/b⌋ and the L − 1 before
//! ```
//!
//! - Shapes: q \[n, H·d\], k \[s, d\], row i of q at position pᵢ = s − n + i; s \[n·H, s\], m \[n·G, nb\], nb = ⌈s/b⌉; C
//!   \[n·G, min(K, nb)\], largest first, none after the last. Row i·G + g is token i's for group g.
//! - Dtypes: q and k bf16; s and m f32; C whole numbers.
//! - Rounding: none; nothing leaves f32, unless autocast makes s in a narrower type.
//! - Errors: C1 n ≥ 1 and s ≥ n; C2 columns of q = H·d; C3 columns of k = d; C4 b, K ≥ 1; C5 H = G, unless one choice
//!   serves all groups.
//! - Variants: D21 m is the largest of all heads', for all groups; D22 the first blocks are forced instead of the token's own,
//!   or none; D23 the first blocks, too; D24 σ = 1/√d; the mean, the logarithm of the sum of exponentials, the largest absolute
//!   value or the smallest for the maximum.
//!   Slips of ports: b, K or L that is not the configuration's; the last block is filled up with zeros, or is not chosen unless it
//!   is full, whatever is forced; s(h,i,j) counts for all j of block ⌊pᵢ/b⌋; s is rounded to bf16; a group has the m of another
//!   head, or of all, or m of the sum of all heads' s; ⌊(pᵢ + 1)/b⌋ is forced, or ⌊i/b⌋, or that of the first or last of a tile
//!   of i; pᵢ = i; m(h,i,c) is taken over keys that begin late or early.
//! - Source: spec A15, steps 4 to 7; `MiniMaxM3VLIndexer` in transformers 5.23. The order of equal blocks is not defined
//!   there; here the lowest index comes first.

mod bound;

use std::ops::Range;

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, s};

use crate::accumulator::Accumulator;
use crate::config::Blocks;
use crate::error::require;
use crate::order::Order;
use crate::parallel;
use crate::ranking::ranked;
use crate::semantics::{
    IndexHeads, IndexMask, MsaLocal, MsaPad, MsaPool, MsaScoreScale, MsaSelect, MsaTile, RopeCall, ScoreType, Semantics,
};
use crate::storage::Mode;
use crate::{ContractError, Real, Rounding, RoundingContract, Storage};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Indexer {
    /// H.
    pub heads: usize,
    /// G.
    pub groups: usize,
    /// d.
    pub head_dim: usize,
    /// b, K, L.
    pub blocks: Blocks,
    /// D21.
    pub select: MsaSelect,
    /// Whose m a group has, where each has its own.
    pub of: IndexHeads,
    /// D22.
    pub local: MsaLocal,
    /// Tokens that share one's local blocks.
    pub tile: Option<MsaTile>,
    /// What the maximum is taken for.
    pub pool: MsaPool,
    /// By how many keys blocks are off.
    pub shift: i32,
    /// What the last block is filled up with.
    pub pad: MsaPad,
    /// Which tokens have a score.
    pub mask: IndexMask,
    /// Whether positions count on from one call to the next.
    pub call: RopeCall,
    /// D24: σ.
    pub scale: f64,
    /// What s is kept in; [`Storage::Real`] where as it is computed.
    pub kept: Storage,
    /// u of the arithmetic.
    pub unit: f64,
    /// Of the scores.
    pub accumulator: Accumulator,
    /// Of the scores, where it is fixed.
    pub order: Order,
    /// Whether the sums' errors are drawn at random, too.
    pub mode: Mode,
}

/// Queries that are taken together.
const TOGETHER: usize = 64;

/// s of q and k (step 4).
pub fn token_scores<T: Real>(
    p: &Indexer,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim())?;
    let mut scores = Array2::zeros((q.nrows() * p.heads, k.nrows()));
    for_each_part(&mut scores, (p.heads, q.len() * k.nrows()), |first, rows| p.scores(q, k, first, rows));
    Ok(scores)
}

/// m of q and k (steps 4 and 5).
pub fn block_max<T: Real>(p: &Indexer, q: ArrayView2<'_, T>, k: ArrayView2<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim())?;
    let mut maxima = Array2::zeros((q.nrows() * p.groups, p.count(k.nrows())));
    for_each_part(&mut maxima, (p.groups, q.len() * k.nrows()), |first, rows| {
        let scores = p.summed(p.scores(q, k, first, rows));
        let mut pooled = Array2::zeros((scores.nrows(), p.count(k.nrows())));
        for (row, (scores, out)) in scores.rows().into_iter().zip(pooled.rows_mut()).enumerate() {
            p.pool(scores, p.seen(p.position(q.nrows(), k.nrows(), first + row / p.heads), k.nrows()), out);
        }
        p.of_groups(pooled)
    });
    Ok(maxima)
}

/// m with what is forced at ∞ (step 6), for the last of s positions.
pub fn boosted<T: Real>(p: &Indexer, maxima: ArrayView2<'_, T>, positions: usize) -> Array2<T> {
    let mut boosted = maxima.to_owned();
    let n = boosted.nrows() / p.groups;
    for (row, mut m) in boosted.rows_mut().into_iter().enumerate() {
        let row = p.tile.map_or(row / p.groups, |tile| tile.local(row / p.groups, n));
        let position = p.position(n, positions, row);
        p.forced([row, position], p.count(positions)).for_each(|block| m[block] = T::infinity());
        if p.pad == MsaPad::Dropped && !positions.is_multiple_of(p.blocks.size) {
            m[p.count(positions) - 1] = T::neg_infinity();
        }
    }
    boosted
}

/// C of the boosted m (step 7); `None` after the last block that is visible.
pub fn choose<T: Real>(p: &Indexer, boosted: ArrayView2<'_, T>) -> Array2<Option<usize>> {
    let k = p.blocks.top_k.min(boosted.ncols());
    let mut chosen = Array2::from_elem((boosted.nrows(), k), None);
    for (m, mut out) in boosted.rows().into_iter().zip(chosen.rows_mut()) {
        let visible = ranked(m).into_iter().filter(|&block| m[block] != T::neg_infinity());
        out.iter_mut().zip(visible).for_each(|(out, block)| *out = Some(block));
    }
    chosen
}

/// C of q and k: all steps.
pub fn indexer<T: Real>(
    p: &Indexer,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
) -> Result<Array2<Option<usize>>, ContractError> {
    let maxima = block_max(p, q, k)?;
    Ok(choose(p, boosted(p, maxima.view(), k.nrows()).view()))
}

impl Indexer {
    /// Under a contract.
    pub fn under(
        contract: &RoundingContract,
        semantics: &Semantics,
        (heads, groups): (usize, usize),
        head_dim: usize,
        blocks: Blocks,
    ) -> Self {
        let scale = match semantics.msa_score_scale {
            MsaScoreScale::One => 1.0,
            MsaScoreScale::HeadDim => (head_dim as f64).sqrt().recip(),
        };
        Indexer {
            heads,
            groups,
            head_dim,
            blocks,
            select: semantics.msa_select,
            of: semantics.index_heads,
            local: semantics.msa_local,
            tile: semantics.msa_tile,
            pool: semantics.msa_pool,
            shift: semantics.index_shift.unwrap_or(0),
            pad: semantics.msa_pad,
            mask: semantics.index_mask,
            call: semantics.index_call,
            scale,
            kept: match semantics.index_scores {
                ScoreType::F32 => contract.autocast.results(),
                kept @ ScoreType::Bf16 => kept.storage(),
            },
            unit: contract.unit(),
            accumulator: contract.accumulator,
            order: contract.products(),
            mode: contract.mode,
        }
    }

    /// C1 to C5.
    pub fn check(&self, q: (usize, usize), k: (usize, usize)) -> Result<(), ContractError> {
        let (heads, d) = (self.heads, self.head_dim);
        require(1 <= q.0 && q.0 <= k.0, "indexer C1", "rows of q", q.0, format!("1 to s = {}", k.0))?;
        require(q.1 == heads * d, "indexer C2", "columns of q", q.1, format!("{heads} heads · {d}"))?;
        require(k.1 == d, "indexer C3", "columns of k", k.1, format!("d = {d}"))?;
        let least = self.blocks.size.min(self.blocks.top_k);
        require(1 <= least, "indexer C4", "min(b, K)", least, "at least 1")?;
        let serves = heads == self.groups || self.select == MsaSelect::HeadMax;
        require(serves, "indexer C5", "H", heads, format!("G = {}: each group has its own choice", self.groups))
    }

    /// nb.
    pub fn count(&self, positions: usize) -> usize {
        positions.div_ceil(self.blocks.size)
    }

    /// The position of query i of n, where the last is that of the last of s keys.
    fn position(&self, n: usize, s: usize, i: usize) -> usize {
        match self.call {
            RopeCall::Continued => s - n + i,
            RopeCall::Restarted => i,
        }
    }

    /// How many of s keys have a score for the token at a position.
    fn seen(&self, position: usize, s: usize) -> usize {
        match self.mask {
            IndexMask::Token => position + 1,
            IndexMask::Block => ((position / self.blocks.size + 1) * self.blocks.size).min(s),
        }
    }

    /// The blocks, of so many, that the token of a call's row, at a position, is sent to whatever their scores.
    fn forced(&self, [row, position]: [usize; 2], count: usize) -> impl Iterator<Item = usize> {
        let own = position / self.blocks.size;
        let before = |block: usize| (block + 1).saturating_sub(self.blocks.local)..block + 1;
        let local = match self.local {
            MsaLocal::OwnBlock => before(own),
            MsaLocal::NextBlock => before(((position + 1) / self.blocks.size).min(count - 1)),
            MsaLocal::CallBlock => before(row / self.blocks.size),
            MsaLocal::FirstBlock => 0..self.blocks.local.min(own + 1),
            MsaLocal::None => 0..0,
        };
        local.chain(0..self.blocks.init.min(own + 1))
    }

    /// s of queries `first..first + rows`, all heads of a query one after the other.
    fn scores<T: Real>(&self, q: ArrayView2<'_, T>, k: ArrayView2<'_, T>, first: usize, rows: usize) -> Array2<T> {
        let mut scores = Array2::from_elem((rows * self.heads, k.nrows()), T::neg_infinity());
        let seen = |i: usize| self.seen(self.position(q.nrows(), k.nrows(), first + i), k.nrows());
        let kept = Rounding::nearest(self.kept);
        let keys = k.slice(s![..seen(rows - 1), ..]);
        for head in 0..self.heads {
            let queries = q.slice(s![first..first + rows, head * self.head_dim..(head + 1) * self.head_dim]);
            let mut dots = self.order.product(queries, keys.t()).unwrap_or_else(|| queries.dot(&keys.t()));
            if self.mode.draws() && self.accumulator != Accumulator::F64 {
                let squares = queries.mapv(|x| x * x).dot(&keys.mapv(|x| x * x).t());
                let terms = self.head_dim;
                dots.zip_mut_with(&squares, |y, &squares| *y = self.accumulator.drawn(self.mode, terms, squares, *y));
            }
            for (i, dots) in dots.rows().into_iter().enumerate() {
                let visible = s![i * self.heads + head, ..seen(i)];
                scores
                    .slice_mut(visible)
                    .assign(&dots.slice(s![..seen(i)]).mapv(|x| kept.round(x * T::of(self.scale))));
            }
        }
        scores
    }

    /// m of one row of s, of which so many are seen.
    fn pool<T: Real>(&self, scores: ArrayView1<'_, T>, seen: usize, mut out: ArrayViewMut1<'_, T>) {
        let size = self.blocks.size;
        for (block, m) in out.iter_mut().enumerate() {
            *m = self.pooled(scores.slice(s![self.keys(block, seen.min(scores.len()))]));
            if self.pad == MsaPad::Zero && (block + 1) * size > scores.len() {
                *m = if *m < T::zero() { T::zero() } else { *m };
            }
        }
    }

    /// The keys of a block, of so many.
    fn keys(&self, block: usize, until: usize) -> Range<usize> {
        let at = |key: usize| key.saturating_add_signed(self.shift as isize).min(until);
        at(block * self.blocks.size)..at((block + 1) * self.blocks.size)
    }

    /// m of the visible tokens of one block.
    fn pooled<T: Real>(&self, visible: ArrayView1<'_, T>) -> T {
        let top = largest(&mut visible.iter().copied());
        match self.pool {
            _ if visible.is_empty() => top,
            MsaPool::Max => top,
            MsaPool::Mean => visible.iter().fold(T::zero(), |sum, &x| sum + x) / T::of(visible.len() as f64),
            MsaPool::Absolute => largest(&mut visible.iter().map(|x| x.abs())),
            MsaPool::Min => -largest(&mut visible.iter().map(|x| -*x)),
            MsaPool::Lse => top + visible.iter().fold(T::zero(), |sum, &x| sum + (x - top).exp()).ln(),
        }
    }

    /// The heads whose m a group has (D21).
    fn heads_of(&self, group: usize) -> Range<usize> {
        let one = |head: usize| head..head + 1;
        match (self.select, self.of) {
            (MsaSelect::PerGroup, IndexHeads::Own | IndexHeads::TokenSum) => one(group),
            (MsaSelect::PerGroup, IndexHeads::First) => one(0),
            (MsaSelect::PerGroup, IndexHeads::Next) => one((group + 1) % self.heads),
            (MsaSelect::PerGroup, IndexHeads::Reversed) => one(self.heads - 1 - group),
            _ => 0..self.heads,
        }
    }

    /// s, a row a head: the sum of all heads' in each of them, where a port takes that.
    fn summed<T: Real>(&self, mut scores: Array2<T>) -> Array2<T> {
        if self.of == IndexHeads::TokenSum {
            for mut heads in scores.axis_chunks_iter_mut(Axis(0), self.heads) {
                let sum = heads.sum_axis(Axis(0));
                heads.rows_mut().into_iter().for_each(|mut row| row.assign(&sum));
            }
        }
        scores
    }

    /// The rows of groups of the rows of heads.
    fn of_groups<T: Real>(&self, of_heads: Array2<T>) -> Array2<T> {
        if (self.select, self.of) == (MsaSelect::PerGroup, IndexHeads::Own) {
            return of_heads;
        }
        let n = of_heads.nrows() / self.heads;
        Array2::from_shape_fn((n * self.groups, of_heads.ncols()), |(row, block)| {
            let (token, heads) = (row / self.groups, self.heads_of(row % self.groups));
            let count = T::of(heads.len() as f64);
            let all = heads.map(|head| of_heads[[token * self.heads + head, block]]);
            let sum = |all: &mut dyn Iterator<Item = T>| all.fold(T::zero(), |sum, m| sum + m);
            match self.of {
                IndexHeads::Sum => sum(&mut { all }),
                IndexHeads::Mean => sum(&mut { all }) / count,
                _ => all.fold(T::neg_infinity(), |top, m| if m > top || m.is_nan() { m } else { top }),
            }
        })
    }
}

/// Fills `all`, which has `each` rows a query, with what `f` gives for its first query and number of queries, in so many multiplications
/// altogether.
fn for_each_part<T: Real>(
    all: &mut Array2<T>,
    (each, multiplications): (usize, usize),
    f: impl Fn(usize, usize) -> Array2<T> + Sync,
) {
    let parts = all.axis_chunks_iter_mut(Axis(0), TOGETHER * each).enumerate();
    parallel::for_each(parts, multiplications, |(part, mut rows)| {
        let queries = rows.nrows() / each;
        rows.assign(&f(part * TOGETHER, queries));
    });
}

/// The largest, or what is no number.
fn largest<T: Real>(all: &mut dyn Iterator<Item = T>) -> T {
    all.fold(T::neg_infinity(), |top, x| if x > top || x.is_nan() { x } else { top })
}
