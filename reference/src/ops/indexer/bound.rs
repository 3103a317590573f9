//! The error bounds of token scores and block maxima; the choice itself is judged by its margin.
//!
//! A score is a dot product: with c of the accumulator and errors δ of the queries and ε of the keys,
//!
//! ```text
//! |ŝ − s| ≤ σ·Σ (|q| + δ)·ε + δ·|k| + c·(|q| + δ)·(|k| + ε), and a rounding of σ·s
//! ```
//!
//! A maximum is off by no more than the scores that may become it let it be.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, Zip, concatenate, s};

use super::{Indexer, TOGETHER};
use crate::Storage;
use crate::accumulator::gamma;
use crate::bound::ErrorBound;
use crate::bound::elementary::{CONFIDENT, EXPONENTIAL};
use crate::semantics::{IndexHeads, MsaPad, MsaPool};
use crate::storage::{FLUSHED, Mode};
use crate::tracked::Tracked;

/// Scores of some queries, and how far they may be off; 0 where masked.
struct Scores {
    value: Array2<f64>,
    certain: Array2<f64>,
    sigma: Array2<f64>,
}

impl Indexer {
    /// Of s.
    pub fn bound_scores(&self, q: &Tracked<f64>, k: &Tracked<f64>) -> ErrorBound {
        let parts: Vec<Scores> = self.parts(q, k).collect();
        let rows = |part: fn(&Scores) -> ArrayView2<'_, f64>| {
            concatenate(Axis(0), &parts.iter().map(part).collect::<Vec<_>>()).expect("all have a column a key")
        };
        let carried = carried(q, k);
        ErrorBound { certain: rows(|part| part.certain.view()), sigma: rows(|part| part.sigma.view()), carried }
    }

    /// Of m.
    pub fn bound_block_max(&self, q: &Tracked<f64>, k: &Tracked<f64>, maxima: &Array2<f64>) -> ErrorBound {
        let mut error = ErrorBound::exact(maxima.dim());
        error.carried = carried(q, k);
        let (n, s) = (q.dim().0, k.dim().0);
        for (part, scores) in self.parts(q, k).map(|scores| self.added_up(scores)).enumerate() {
            for row in 0..scores.value.nrows() / self.heads * self.groups {
                let (i, group) = (row / self.groups, row % self.groups);
                let seen = self.seen(self.position(n, s, part * TOGETHER + i), s);
                let heads = self.heads_of(group);
                let heads = i * self.heads + heads.start..i * self.heads + heads.end;
                for block in 0..self.count(s) {
                    let tokens = self.keys(block, seen);
                    if tokens.is_empty() {
                        continue;
                    }
                    let at = [part * TOGETHER * self.groups + row, block];
                    let is_partial = (block + 1) * self.blocks.size > s;
                    let of_head = |head: usize| {
                        let of = |x: &Array2<f64>| x.slice(s![head, tokens.clone()]).to_owned();
                        let m = self.pooled_error(
                            of(&scores.value).view(),
                            of(&scores.certain).view(),
                            of(&scores.sigma).view(),
                        );
                        if is_partial && self.pad == MsaPad::Zero { or_zero(m) } else { m }
                    };
                    let heads: Vec<[f64; 3]> = heads.clone().map(of_head).collect();
                    (error.certain[at], error.sigma[at]) = match self.of {
                        IndexHeads::Sum => self.of_sum(&heads, 1.0),
                        IndexHeads::Mean => self.of_sum(&heads, heads.len() as f64),
                        _ => of_maximum(&heads, maxima[at]),
                    };
                }
            }
        }
        error
    }

    /// Of the boosted m: what is forced, or left out, is exact.
    pub fn bound_boosted(&self, mut error: ErrorBound, boosted: &Array2<f64>) -> ErrorBound {
        Zip::from(&mut error.certain).and(&mut error.sigma).and(boosted).for_each(|certain, sigma, &m| {
            if m.is_infinite() {
                (*certain, *sigma) = (0.0, 0.0);
            }
        });
        error
    }

    /// The errors of a sum of values with theirs, over a number.
    fn of_sum(&self, all: &[[f64; 3]], over: f64) -> (f64, f64) {
        let size: f64 = all.iter().map(|[value, certain, _]| value.abs() + certain).sum();
        let own = gamma(all.len() + 1, self.unit) * size + FLUSHED;
        let moved = all.iter().map(|[_, certain, _]| certain).sum::<f64>() + own;
        let spread = all.iter().map(|[_, _, sigma]| sigma * sigma).sum::<f64>().sqrt();
        (moved / over, (spread + own).min(moved) / over)
    }

    /// The value of one block for one head, and its errors.
    fn pooled_error(
        &self,
        s: ArrayView1<'_, f64>,
        certain: ArrayView1<'_, f64>,
        sigma: ArrayView1<'_, f64>,
    ) -> [f64; 3] {
        let value = self.pooled(s);
        let (count, unit) = (s.len() as f64, self.unit);
        let all: Vec<[f64; 3]> = s.iter().zip(certain).zip(sigma).map(|((&s, &c), &d)| [s, c, d]).collect();
        match self.pool {
            MsaPool::Max => {
                let (certain, sigma) = of_maximum(&all, value);
                [value, certain, sigma]
            }
            MsaPool::Absolute => {
                let all: Vec<[f64; 3]> = all.iter().map(|[s, certain, sigma]| [s.abs(), *certain, *sigma]).collect();
                let (certain, sigma) = of_maximum(&all, value);
                [value, certain, sigma]
            }
            MsaPool::Min => {
                let all: Vec<[f64; 3]> = all.iter().map(|[s, certain, sigma]| [-s, *certain, *sigma]).collect();
                let (certain, sigma) = of_maximum(&all, -value);
                [value, certain, sigma]
            }
            MsaPool::Mean => {
                let size = s.iter().zip(certain).map(|(s, c)| s.abs() + c).sum::<f64>() / count;
                let own = gamma(s.len() + 1, unit) * size + FLUSHED;
                let moved = certain.sum() / count + own;
                let spread = sigma.iter().map(|s| s * s).sum::<f64>().sqrt() / count;
                [value, moved, spread.hypot(own / 3.0_f64.sqrt()).min(moved)]
            }
            MsaPool::Lse => {
                let worst = certain.iter().copied().fold(0.0, f64::max);
                let size = s.iter().map(|s| s.abs()).fold(0.0, f64::max) + worst;
                let own = unit * (2.0 * count + 3.0 * EXPONENTIAL + 8.0 * size + 5.0 * count.ln()) + FLUSHED;
                [value, worst + own, worst + own]
            }
        }
    }

    /// The scores of all queries, some at a time.
    fn parts<'a>(&'a self, q: &'a Tracked<f64>, k: &'a Tracked<f64>) -> impl Iterator<Item = Scores> + 'a {
        let (qe, ke) = (q.error_or_exact(), k.error_or_exact());
        let truth = Indexer { mode: Mode::Nearest, kept: Storage::Real, ..*self };
        (0..q.dim().0).step_by(TOGETHER).map(move |first| {
            let rows = TOGETHER.min(q.dim().0 - first);
            let value = truth.scores(q.view(), k.view(), first, rows);
            let (mut certain, mut sigma) = (Array2::zeros(value.dim()), Array2::zeros(value.dim()));
            for head in 0..self.heads {
                let mine = s![first..first + rows, head * self.head_dim..(head + 1) * self.head_dim];
                let part = |x: &Array2<f64>| x.slice(mine).to_owned();
                let (of_head, sigma_of_head) = self.score_error(
                    [part(&q.value).mapv(f64::abs), part(&qe.certain), part(&qe.sigma)],
                    [k.value.mapv(f64::abs), ke.certain.clone(), ke.sigma.clone()],
                    value.slice(s![head..;self.heads, ..]),
                );
                certain.slice_mut(s![head..;self.heads, ..]).assign(&of_head);
                sigma.slice_mut(s![head..;self.heads, ..]).assign(&sigma_of_head);
            }
            self.as_kept(Scores { value, certain, sigma })
        })
    }

    /// The sum of all heads' scores in the place of each, where a port takes that.
    fn added_up(&self, scores: Scores) -> Scores {
        if self.of != IndexHeads::TokenSum {
            return scores;
        }
        let (mut certain, mut sigma) = (scores.certain.clone(), scores.sigma.clone());
        for (at, _) in scores.value.indexed_iter().filter(|(_, value)| **value > f64::NEG_INFINITY) {
            let (first, key) = (at.0 / self.heads * self.heads, at.1);
            let of = |head: usize| {
                [
                    scores.value[[first + head, key]],
                    scores.certain[[first + head, key]],
                    scores.sigma[[first + head, key]],
                ]
            };
            let all: Vec<[f64; 3]> = (0..self.heads).map(of).collect();
            (certain[at], sigma[at]) = self.of_sum(&all, 1.0);
        }
        Scores { value: self.summed(scores.value), certain, sigma }
    }

    /// Scores as they are kept: those that truth and device round differ where a middle of two neighbours is near.
    fn as_kept(&self, mut scores: Scores) -> Scores {
        if self.kept == Storage::Real {
            return scores;
        }
        let storage = self.kept;
        let each = Zip::from(&mut scores.value).and(&mut scores.certain).and(&mut scores.sigma);
        each.for_each(|score, certain, sigma| {
            if *score > f64::NEG_INFINITY {
                *certain = storage.apart(*score, *certain);
                (*score, *sigma) = (storage.nearest(*score), *certain);
            }
        });
        scores
    }

    /// Of the scores of one head, from |q|, δ and its deviation, and the same of k.
    fn score_error(
        &self,
        [q, qc, qs]: [Array2<f64>; 3],
        [k, kc, ks]: [Array2<f64>; 3],
        scores: ArrayView2<'_, f64>,
    ) -> (Array2<f64>, Array2<f64>) {
        let summed = (&q + &qc).dot(&(&k + &kc).t()) * self.accumulator.certain(self.head_dim);
        let moved = (&q + &qc).dot(&kc.t()) + qc.dot(&k.t());
        let square = |a: &Array2<f64>| a.mapv(|x| x * x);
        let (q2, k2, qs2, ks2) = (square(&q), square(&k), square(&qs), square(&ks));
        let spread = (&q2 + &qs2).dot(&ks2.t()) + qs2.dot(&k2.t());
        let products = q2.dot(&k2.t());
        let floor = (self.head_dim + 1) as f64 * self.accumulator.smallest_normal();
        let flushed = |x: f64| if x.is_finite() { self.accumulator.flushed_factor() * self.scale * x } else { x };
        let [of_queries, of_keys] = [&q + &qc, &k + &kc].map(|x| x.sum_axis(Axis(1)).mapv(flushed));
        let (mut certain, mut sigma) = (Array2::zeros(scores.dim()), Array2::zeros(scores.dim()));
        for (at, &score) in scores.indexed_iter().filter(|(_, score)| **score > f64::NEG_INFINITY) {
            let dot = (moved[at] + summed[at]) * self.scale;
            let scaled = self.unit * (score.abs() + dot) + floor + of_queries[at.0] + of_keys[at.1];
            certain[at] = dot + scaled;
            let sum = match self.accumulator.variance(self.head_dim) {
                Some(own) => own * (products[at] * self.scale * self.scale + score * score),
                None => (summed[at] * self.scale).powi(2),
            };
            let variance = spread[at] * self.scale * self.scale + sum + scaled * scaled / 3.0;
            sigma[at] = variance.sqrt().min(certain[at]);
        }
        (certain, sigma)
    }
}

/// How far the largest of some values, each with its error and deviation, may be from `top`.
fn of_maximum(values: &[[f64; 3]], top: f64) -> (f64, f64) {
    let reach = |error: fn(&[f64; 3]) -> f64| {
        let highest = values.iter().map(|v| v[0] + error(v)).fold(f64::NEG_INFINITY, f64::max);
        let lowest = values.iter().map(|v| v[0] - error(v)).fold(f64::NEG_INFINITY, f64::max);
        (highest - top).max(top - lowest)
    };
    let certain = reach(|v| v[1]);
    (certain, (reach(|v| CONFIDENT * v[2]) / CONFIDENT).min(certain))
}

/// A value with its error and deviation, or 0 where that is larger.
fn or_zero(m: [f64; 3]) -> [f64; 3] {
    let value = m[0].max(0.0);
    let (certain, sigma) = of_maximum(&[m, [0.0; 3]], value);
    [value, certain, sigma]
}

fn carried(q: &Tracked<f64>, k: &Tracked<f64>) -> u32 {
    ErrorBound::carried_through(&[&q.error_or_exact(), &k.error_or_exact()])
}
