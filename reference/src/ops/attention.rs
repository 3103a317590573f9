//! Attention: each token's softmax-weighted mean of the values before it and its own.
//!
//! ```text
//! o(h,i) = Σⱼ ρ(p(h,i,j))·v(g,j)        p = softmax over j ≤ i of σ·q(h,i)·k(g,j)        g = ⌊h·G/H⌋
//! ```
//!
//! - Shapes: q \[n, H·d\], k and v \[s, G·d\], o \[n, H·d\]; row i of q is at position s − n + i.
//! - Dtypes: q, k, v and o in the activations' type, but k and v as the cache keeps them, and q in a type of its own where a
//!   precision has one (`query`): the caller narrows them. Under autocast all are of its type, unless attention's are left as they are
//!   (uncast, which is flash then). Scores, maxima and sums f32.
//! - Rounding: R1 at q·k and again at σ·q·k (eager only); R2 at ρ: before the division by the sum (flash), after it (eager), or
//!   after it in the cache's type (operands); R3 at o. Flash in f16 has no R2, but R4 in f16 at each step of a running sum of
//!   values, key by key, rescaled where a score is the largest so far; from 64 rows on it has neither. Of 16 bits (sdpa) the
//!   exponential is torch's cubic (`exponential`) but for the last s mod 8 keys; of f32 its quintic is within the bound.
//! - Errors: C1 n ≥ 1 and s ≥ n; C2 columns of q = H·d; C3 columns of k and v = G·d; C4 H a multiple of G.
//! - Variants: slips of ports: another σ; g = h mod G, of k, of v or of both; j ≤ i + 1, j < i, where row 0 weighs all s alike,
//!   j ≤ i less the s − n keys of the calls before, or all j; σ·q·k and p in bf16, or R2 in E4M3 or bf16, whatever R1 and R2 are; q
//!   in E4M3 or bf16, or of the first channels of a head alone, and a head of o that holds another's, and heads of q, k, v or o that are
//!   viewed \[H, n, d\] where they lie \[n, H, d\], or the other way round, of which the caller sees to;
//!   those that the released model has not, but others have, and keys that a cache loses, or has beside those of tokens (`slips`);
//!   splits of keys put together otherwise (`merged`).
//! - Source: spec A7; `eager_attention_forward` in transformers 5.23. No window, sink, soft cap or bias.

mod bound;
mod exponential;
mod heads;
mod merged;
mod slips;
mod sums;
pub mod temperature;
pub(super) mod tiles;

use std::f64::consts::LOG2_E;
use std::ops::Range;

use ndarray::{Array2, ArrayView2, Axis, CowArray, Ix2, s};

use self::exponential::exponential;
use crate::accumulator::Accumulator;
use crate::error::require;
use crate::order::{self, Order, Tiles};
use crate::rounding::{AttentionRound, Autocast, Exponential};
use crate::semantics::{CacheHalf, Causal, KeyHead, Merged, ScoreType, Unseen, Zeros};
use crate::storage::Mode;
use crate::{ContractError, Real, Rounding, RoundingContract, Storage};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// H.
    pub query_heads: usize,
    /// G.
    pub key_heads: usize,
    /// d.
    pub head_dim: usize,
    /// σ = 1/√d.
    pub scale: f64,
    /// Which key head a query head reads.
    pub key_head: KeyHead,
    /// Whose heads, keys' or values', are read as h mod G, whatever the other's are.
    pub tiled: Option<CacheHalf>,
    /// Which tokens a token sees.
    pub causal: Causal,
    /// c of c·tanh(s/c).
    pub cap: Option<f64>,
    /// A score of no key.
    pub sink: Option<f64>,
    /// Tokens that one sees at most.
    pub window: Option<usize>,
    /// First tokens that see each other both ways.
    pub prefix: Option<usize>,
    /// Positions of a tile that see each other both ways.
    pub tile: Option<usize>,
    /// The first key that no token sees, and the next that they do again.
    pub lost: Option<[usize; 2]>,
    /// The position of the call's first query, for what goes by that.
    pub call: usize,
    /// Other keys that a token does not see.
    pub unseen: Option<Unseen>,
    /// Keys and values of zeros that it sees, too.
    pub zeros: Option<Zeros>,
    /// How splits of keys are put together, if not by their sums.
    pub merged: Option<Merged>,
    /// R1.
    pub scores: Rounding,
    /// What the softmax takes and gives; in bf16, R2 is in bf16, after the division.
    pub softmax: ScoreType,
    /// R2.
    pub probabilities: Rounding,
    /// Whether that is a slip's, which the truth has, too: what both round may be two roundings apart.
    pub narrowed: bool,
    /// Whether R2 is before or after the division.
    pub order: AttentionRound,
    /// R3.
    pub output: Rounding,
    /// u of the softmax.
    pub unit: f64,
    /// What stands for the exponential.
    pub exponential: Exponential,
    /// What the caller narrows q to; [`Storage::Real`] where it is taken as it is.
    pub query: Storage,
    /// What the running sum of values is kept in; [`Storage::Real`] where that is the arithmetic's type.
    pub sum: Storage,
    /// Of both sums of products.
    pub accumulator: Accumulator,
    /// Of the same, where it is fixed.
    pub products: Order,
    /// How keys are cut, where the order is fixed.
    pub tiles: Option<Tiles>,
    /// Whether the sums' errors are drawn at random, too.
    pub mode: Mode,
}

/// Rows from which llama.cpp's flash attention takes tiles, and narrows neither queries nor the running sum (`GGML_FA_TILE_Q`).
pub const TILE: usize = 64;

/// Queries that are taken together.
pub(super) const BLOCK: usize = 64;

/// The softmax of a block of queries of one head before it is divided.
pub(super) struct Softmax<T> {
    /// Scaled scores \[rows, keys seen by the last row\], −∞ where masked.
    pub(super) scores: Array2<T>,
    /// exp(score − largest score).
    pub(super) weights: Array2<T>,
    /// Each row's largest score.
    pub(super) largest: Vec<T>,
    /// Each row's sum of weights.
    pub(super) sums: Vec<T>,
}

/// o of q, k and v.
pub fn attention<T: Real>(
    p: &Attention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
    v: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim(), v.dim())?;
    let mut o = Array2::zeros(q.dim());
    let (keys, values) = (p.by_head(k, q.nrows()), p.by_head(v, q.nrows()));
    p.for_each_block(&mut o, k.nrows(), |head, first, mut o| {
        let (keys, values) = (keys[p.key_head(head)].view(), values[p.value_head(head)].view());
        let position = Attention::position(q.nrows(), k.nrows(), first);
        if let Some(tiles) = p.tiles {
            for (i, row) in o.axis_chunks_iter_mut(Axis(0), 1).enumerate() {
                let query = p.head(q, head).index_axis_move(Axis(0), first + i);
                let seen = p.without_lost(p.visible(position + i, k.nrows()), position + i);
                p.over_tiles(tiles, query, [keys, values], seen).insert_axis(Axis(0)).assign_to(row);
            }
            return;
        }
        let softmax = p.softmax(q, keys, head, first, o.nrows());
        let seen = values.slice(s![..softmax.scores.ncols(), ..]);
        o.assign(&p.mean(&softmax, |w| p.weighted(w, values, position), || seen.into()));
    });
    Ok(o)
}

/// p of q and k \[H·n, s\], 0 where masked.
pub fn probabilities<T: Real>(
    p: &Attention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim(), k.dim())?;
    Ok(p.rows_by_head(q, k, T::zero(), |softmax| softmax.probabilities(p.rounded_probabilities())))
}

/// σ·q·k \[H·n, s\], −∞ where masked.
pub fn scores<T: Real>(p: &Attention, q: ArrayView2<'_, T>, k: ArrayView2<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(q.dim(), k.dim(), k.dim())?;
    Ok(p.rows_by_head(q, k, T::neg_infinity(), |softmax| softmax.scores))
}

/// o of p \[H·n, s\] and v.
pub fn context<T: Real>(p: &Attention, probabilities: ArrayView2<'_, T>, v: ArrayView2<'_, T>) -> Array2<T> {
    let n = probabilities.nrows() / p.query_heads;
    let mut o = Array2::zeros((n, p.query_heads * p.head_dim));
    let taken = if p.order == AttentionRound::Operands { p.probabilities } else { Rounding::NONE };
    for head in 0..p.query_heads {
        let mine = probabilities.slice(s![head * n..(head + 1) * n, ..]).mapv(|x| taken.round(x)); // R2
        let context = p.weighted(mine.view(), p.head(v, p.value_head(head)), Attention::position(n, v.nrows(), 0));
        o.slice_mut(s![.., p.columns(head)]).assign(&context.mapv(|x| p.output.round(x))); // R3
    }
    o
}

impl<T: Real> Softmax<T> {
    /// Weights divided by their sum, rounded.
    pub(super) fn probabilities(&self, rounding: Rounding) -> Array2<T> {
        let mut probabilities = self.weights.clone();
        for (mut row, &sum) in probabilities.rows_mut().into_iter().zip(&self.sums) {
            row.mapv_inplace(|w| rounding.round(w / sum));
        }
        probabilities
    }
}

impl Attention {
    /// Of calls of so many rows: where a tile has a running sum of its own, neither that nor the query is narrowed.
    #[must_use]
    pub fn of_rows(self, rows: usize) -> Self {
        let is_tile = self.sum != Storage::Real && rows >= TILE;
        if is_tile { Attention { query: Storage::Real, sum: Storage::Real, ..self } } else { self }
    }

    /// The roundings of a contract.
    pub fn under(contract: &RoundingContract, (query_heads, key_heads): (usize, usize), head_dim: usize) -> Self {
        let contract = &contract.of_attention();
        // Under autocast a softmax of its own gives f32, which is cast as an operand.
        let is_operand = contract.autocast != Autocast::Off && contract.attention == AttentionRound::Eager;
        let own = contract.of_products();
        let operand = if contract.autocast == Autocast::Off { own.activations } else { own.operands };
        Attention {
            query_heads,
            key_heads,
            head_dim,
            scale: (head_dim as f64).sqrt().recip(),
            key_head: KeyHead::Grouped,
            tiled: None,
            causal: Causal::Inclusive,
            cap: None,
            sink: None,
            window: None,
            prefix: None,
            tile: None,
            lost: None,
            call: 0,
            unseen: None,
            zeros: None,
            merged: None,
            scores: if contract.attention == AttentionRound::Eager { own.stored() } else { Rounding::NONE },
            softmax: ScoreType::F32,
            probabilities: match (contract.attention, contract.kv_cache) {
                (AttentionRound::Operands, storage) if storage != Storage::Real => {
                    Rounding { storage, mode: contract.mode }
                }
                _ => Rounding { storage: operand, mode: contract.mode },
            },
            narrowed: false,
            order: if is_operand { AttentionRound::Operands } else { contract.attention },
            output: own.stored(),
            unit: contract.unit(),
            exponential: contract.attention.exponential(own.activations),
            query: contract.query(),
            sum: contract.running_sum(),
            accumulator: contract.accumulator,
            products: contract.products(),
            tiles: (contract.mode == Mode::Ordered).then_some(order::PARITY.tiles),
            mode: contract.mode,
        }
    }

    /// C1 to C4.
    pub fn check(&self, q: (usize, usize), k: (usize, usize), v: (usize, usize)) -> Result<(), ContractError> {
        let (heads, groups, d) = (self.query_heads, self.key_heads, self.head_dim);
        let wide = |heads: usize| format!("{heads} heads · {d}");
        require(1 <= q.0 && q.0 <= k.0, "attention C1", "rows of q", q.0, format!("1 to s = {}", k.0))?;
        require(q.1 == heads * d, "attention C2", "columns of q", q.1, wide(heads))?;
        require(k.1 == groups * d, "attention C3", "columns of k", k.1, wide(groups))?;
        require(v == k, "attention C3", "shape of v", format!("{v:?}"), format!("that of k, {k:?}"))?;
        require(
            groups > 0 && heads.is_multiple_of(groups),
            "attention C4",
            "H",
            heads,
            format!("a multiple of G = {groups}"),
        )
    }

    /// σ·log₂e, by which products become exponents of 2.
    pub fn exponent_of_2(&self) -> f64 {
        self.scale * LOG2_E
    }

    /// The position of query i of n, where the last is that of the last of s keys.
    fn position(n: usize, s: usize, i: usize) -> usize {
        s - n + i
    }

    /// The columns of one head.
    pub(super) fn columns(&self, head: usize) -> Range<usize> {
        head * self.head_dim..(head + 1) * self.head_dim
    }

    /// The columns of one head, of x.
    pub(super) fn head<'a, T>(&self, x: ArrayView2<'a, T>, head: usize) -> ArrayView2<'a, T> {
        x.slice_move(s![.., self.columns(head)])
    }

    /// R2 of the probabilities as a site shows them: others round them where they meet the values.
    pub(super) fn rounded_probabilities(&self) -> Rounding {
        if self.order == AttentionRound::Eager { self.probabilities } else { Rounding::NONE }
    }

    /// The softmax of queries `first..first + rows` of a head, over the keys that the last of them sees; k is its key head
    /// alone.
    pub(super) fn softmax<T: Real>(
        &self,
        q: ArrayView2<'_, T>,
        k: ArrayView2<'_, T>,
        head: usize,
        first: usize,
        rows: usize,
    ) -> Softmax<T> {
        let position = Attention::position(q.nrows(), k.nrows(), first);
        let queries = self.head(q, head).slice_move(s![first..first + rows, ..]);
        let seen = |i: usize| self.visible(position + i, k.nrows());
        let columns = (0..rows).map(|i| seen(i).end).max().unwrap_or(0);
        let keys = k.slice_move(s![..columns, ..]);
        let lost = |i: usize| self.lost_keys(position + i);
        let nothing = |i: usize| self.causal == Causal::Strict && position + i == 0;
        let scores = self.product(queries, keys.reversed_axes());
        let by = |column: usize| self.exponential.of_key(column, k.nrows());
        self.softmax_of(scores, k.nrows(), lost, (|i| if nothing(i) { 0..0 } else { seen(i) }, by))
    }

    /// The softmax of queries' products with keys, of which query i sees `seen(i)` but for the lost ones; without any, and where all of
    /// these are lost, they are masked alike. There are so many `keys` in all, seen or not. What stands for the exponential of a
    /// column is `by` of it.
    pub(super) fn softmax_of<T: Real>(
        &self,
        mut scores: Array2<T>,
        keys: usize,
        lost: impl Fn(usize) -> Vec<Range<usize>>,
        (seen, by): (impl Fn(usize) -> Range<usize>, impl Fn(usize) -> Exponential),
    ) -> Softmax<T> {
        let (scale, taken) = (T::of(self.scale), Rounding::nearest(self.softmax.storage()));
        if self.scores == Rounding::NONE && taken == Rounding::NONE {
            scores.mapv_inplace(|x| self.capped(x * scale));
        } else {
            scores.mapv_inplace(|x| taken.round(self.capped(self.scores.round(self.scores.round(x) * scale)))); // R1
        }
        let (mut weights, mut largest, mut sums) = (Array2::zeros(scores.dim()), Vec::new(), Vec::new());
        for (i, mut row) in scores.rows_mut().into_iter().enumerate() {
            let seen = seen(i);
            if seen.is_empty() {
                row.fill(T::zero());
            } else {
                row.slice_mut(s![..seen.start]).fill(T::neg_infinity());
                row.slice_mut(s![seen.end..]).fill(T::neg_infinity());
                let (end, lost) = (row.len(), lost(i));
                for run in &lost {
                    row.slice_mut(s![run.start.min(end)..run.end.min(end)]).fill(T::neg_infinity());
                }
                if !lost.is_empty() && row.iter().all(|x| *x == T::neg_infinity()) {
                    row.slice_mut(s![seen]).fill(T::zero());
                }
            }
            let sink = self.beside(keys).map_or(T::neg_infinity(), T::of);
            let top = row.iter().fold(sink, |top, &x| if x > top || x.is_nan() { x } else { top });
            let of_columns = weights.row_mut(i).into_iter().zip(&row).enumerate();
            of_columns.for_each(|(column, (w, &x)): (usize, (&mut T, &T))| *w = exponential(by(column), x - top));
            largest.push(top);
            let sum = match self.merged {
                Some(merged) => merged.apply(row.view(), weights.row_mut(i)),
                None => Self::total(weights.row(i)),
            };
            sums.push(sum + (sink - top).exp());
        }
        Softmax { scores, weights, largest, sums }
    }

    /// o of a softmax, where `weighted` makes Σⱼ wⱼ·vⱼ of rows of weights, and `values` gives the vⱼ, a row for each score.
    pub(super) fn mean<'v, T: Real>(
        &self,
        softmax: &Softmax<T>,
        weighted: impl Fn(ArrayView2<'_, T>) -> Array2<T>,
        values: impl FnOnce() -> CowArray<'v, T, Ix2>,
    ) -> Array2<T> {
        let mut context = if matches!(self.order, AttentionRound::Eager | AttentionRound::Operands) {
            weighted(softmax.probabilities(self.probabilities).view()) // R2
        } else if self.sum != Storage::Real {
            self.running(softmax.scores.view(), values().view())
        } else {
            let mut sum = weighted(softmax.weights.mapv(|w| self.probabilities.round(w)).view()); // R2
            for (mut row, &total) in sum.rows_mut().into_iter().zip(&softmax.sums) {
                row.mapv_inplace(|x| x / total);
            }
            sum
        };
        context.mapv_inplace(|x| self.output.round(x)); // R3
        context
    }
}
