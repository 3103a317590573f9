//! The error bound of attention (Blanchard, Higham & Higham 2021 for the softmax; the rest derived here).
//!
//! Let a score be off by at most dⱼ, the error of the exponential included. Then the weights' ratio to their true
//! values lies in exp(±dⱼ), and because the softmax divides by their sum,
//!
//! ```text
//! |ô − o| ≤ Σⱼ pⱼ·(exp dⱼ − 1)·|vⱼ − o| / L  +  Σⱼ p⁺ⱼ·eⱼ  +  κ·Σⱼ p⁺ⱼ·(|vⱼ| + eⱼ)
//!
//! L = Σⱼ pⱼ·exp(−dⱼ)        p⁺ⱼ = pⱼ·exp dⱼ / L
//! ```
//!
//! with κ for R2 (two roundings where a slip has the truth round, too: they may go different ways, (1 + u)/(1 − u)), the two sums
//! and the division, and e the error of v. The first term is centred on o: what moves all scores alike cannot matter. No term is
//! more than its largest share, because probabilities sum to 1. Nor is the first more than Σⱼ p⁺ⱼ·|vⱼ − o|, which stays right
//! where one key has all the weight and may lose it: o is this key's value then, but for less than f64 tells.
//!
//! Where a port puts splits together otherwise, they need not. A weight counts its score, its split's largest, all keys' largest
//! and a sum, each moved by at most δ = max dⱼ: it lies within exp(±4δ), alike for all keys, and o is no centre.

mod mean;
mod narrow;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, Zip, s};

use self::mean::{Values, Weights};
use super::{Attention, BLOCK, Softmax};
use crate::Rounding;
use crate::accumulator::gamma;
use crate::bound::elementary::{CONFIDENT, EXPONENTIAL};
use crate::bound::{ErrorBound, together};
use crate::parallel;
use crate::rounding::{AttentionRound, Exponential};
use crate::semantics::ScoreType;
use crate::storage::Mode;
use crate::tracked::Tracked;

/// An online softmax may rescale its sums once for so many keys.
const RESCALED_EVERY: usize = 16;

/// How often a score, or a sum of what scores give, counts in a weight of splits that are put together otherwise.
const COUNTED: f64 = 4.0;

/// No probability that is less is told from 0.
const LEAST: f64 = f64::MIN_POSITIVE;

/// Queries and keys with their errors.
struct Inputs<'a> {
    q: &'a Tracked<f64>,
    k: &'a Tracked<f64>,
    qe: ErrorBound,
    ke: ErrorBound,
}

/// Errors of the scores of a block; 0 where masked.
struct ScoreError {
    certain: Array2<f64>,
    /// The part of the standard deviation that each key has to itself.
    own: Array2<f64>,
    /// The part that comes with the query, and is one draw for all keys.
    shared: Array2<f64>,
}

impl Attention {
    /// Of the fused operator: q, k and v in, o out.
    pub fn bound(&self, q: &Tracked<f64>, k: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let (inputs, ve) = (Inputs::new(q, k), v.error_or_exact());
        let mut error = ErrorBound::exact(o.dim());
        error.carried = ErrorBound::carried_through(&[&inputs.qe, &inputs.ke, &ve]);
        let d = self.head_dim;
        let multiplications = o.len() * k.value.nrows();
        let certain = error.certain.axis_chunks_iter_mut(Axis(1), d);
        let heads = certain.zip(error.sigma.axis_chunks_iter_mut(Axis(1), d)).enumerate();
        parallel::for_each(heads, multiplications, |(head, (mut c, mut s))| {
            let group = self.value_head(head);
            for first in (0..o.nrows()).step_by(BLOCK) {
                let rows = BLOCK.min(o.nrows() - first);
                let (softmax, scores) = self.scored(&inputs, head, first, rows);
                let scores = scores.exponentiated(&softmax, self);
                for i in 0..rows {
                    let values = Values {
                        value: self.head(v.view(), group),
                        certain: self.head(ve.certain.view(), group),
                        sigma: self.head(ve.sigma.view(), group),
                        out: o.view().slice_move(s![first + i, self.columns(head)]),
                    };
                    let weights = Weights::new(
                        &softmax,
                        i,
                        &scores,
                        (self.beside(inputs.k.value.nrows()), self.merged.is_some()),
                    );
                    let (certain, sigma) = match self.softmax {
                        ScoreType::F32 => self.mean_error(&values, &weights),
                        ScoreType::Bf16 => self.narrow_mean_error(&values, &weights, scores.certain.row(i)),
                    };
                    c.row_mut(first + i).assign(&certain);
                    s.row_mut(first + i).assign(&sigma);
                }
            }
        });
        error.rounded(o.view(), self.output.storage)
    }

    /// Of the scaled scores, from q and k; 0 where masked.
    pub fn bound_scores(&self, q: &Tracked<f64>, k: &Tracked<f64>, scores: &Array2<f64>) -> ErrorBound {
        let inputs = Inputs::new(q, k);
        let mut error = ErrorBound::exact(scores.dim());
        error.carried = ErrorBound::carried_through(&[&inputs.qe, &inputs.ke]);
        let n = q.value.nrows();
        for head in 0..self.query_heads {
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let (softmax, part) = self.scored(&inputs, head, first, rows);
                let at = s![head * n + first..head * n + first + rows, ..softmax.scores.ncols()];
                error.certain.slice_mut(at).assign(&part.certain);
                let sigma = Zip::from(&part.own).and(&part.shared).and(&part.certain);
                let sigma = sigma.map_collect(|own, shared, certain| together(*own, *shared).min(*certain));
                error.sigma.slice_mut(at).assign(&sigma);
            }
        }
        error
    }

    /// Of the probabilities, from q and k.
    pub fn bound_probabilities(&self, q: &Tracked<f64>, k: &Tracked<f64>, p: &Array2<f64>) -> ErrorBound {
        let inputs = Inputs::new(q, k);
        let mut error = ErrorBound::exact(p.dim());
        error.carried = ErrorBound::carried_through(&[&inputs.qe, &inputs.ke]);
        let n = q.value.nrows();
        let own = self.softmax_error(p.ncols());
        let floor = self.accumulator.smallest_normal();
        let multiplications = p.len() * self.head_dim;
        let certain = error.certain.axis_chunks_iter_mut(Axis(0), n);
        let heads = certain.zip(error.sigma.axis_chunks_iter_mut(Axis(0), n)).enumerate();
        parallel::for_each(heads, multiplications, |(head, (mut c, mut s))| {
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let (softmax, scores) = self.scored(&inputs, head, first, rows);
                let scores = scores.exponentiated(&softmax, self);
                for i in 0..rows {
                    let row = Weights::new(
                        &softmax,
                        i,
                        &scores,
                        (self.beside(inputs.k.value.nrows()), self.merged.is_some()),
                    );
                    let independent: f64 = row.own.iter().map(|s| s * s).sum();
                    let together: f64 = row.shared.iter().sum();
                    for j in (0..row.probability.len()).filter(|&j| softmax.scores[[i, j]] > f64::NEG_INFINITY) {
                        let (p, at) = (row.probability[j], [first + i, j]);
                        c[at] = row.certain(j, scores.certain[[i, j]], own, floor);
                        if self.softmax == ScoreType::Bf16 {
                            (c[at], s[at]) = self.narrow(p, c[at]);
                            continue;
                        }
                        let variance =
                            row.own[j].powi(2) + p * p * independent + (row.shared[j] + p * together).powi(2);
                        let roundings = own * p + floor;
                        s[at] = (variance + roundings * roundings / 3.0).sqrt().min(c[at]);
                    }
                }
            }
        });
        match (self.order, self.softmax) {
            (AttentionRound::Eager, ScoreType::F32) => error.rounded(p.view(), self.probabilities.storage),
            _ => error,
        }
    }

    /// Of o, from given probabilities and v.
    pub fn bound_context(&self, p: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let (pe, ve) = (p.error_or_exact(), v.error_or_exact());
        let mut error = ErrorBound::exact(o.dim());
        error.carried = ErrorBound::carried_through(&[&pe, &ve]);
        let (n, keys) = (o.nrows(), v.value.nrows());
        let sums = self.summed(keys);
        // Flash rounds weights that are not yet divided (R2), and its p is not what it adds up.
        let (u2, underflow, divided) = if self.order == AttentionRound::Eager {
            (0.0, 0.0, 0.0)
        } else {
            let storage = self.probabilities.storage;
            (storage.unit_roundoff(), storage.underflow(), self.softmax_error(keys))
        };
        let c = (1.0 + u2) * (1.0 + sums) * (1.0 + divided) - 1.0;
        let own = self.accumulator.variance(keys).map(|own| own + u2 * u2 / 3.0);
        for head in 0..self.query_heads {
            let rows = s![head * n..(head + 1) * n, ..];
            let (p, pc, ps) = (p.value.slice(rows), pe.certain.slice(rows), pe.sigma.slice(rows));
            let group = self.value_head(head);
            // What is not a number fails by itself, and must not reach the tokens before it.
            let v = self.head(v.view(), group).mapv(|v| if v.is_finite() { v.abs() } else { 0.0 });
            let lost = self.accumulator.flushed_factor() + underflow;
            let floor = keys as f64 * (self.accumulator.smallest_normal() + lost * largest(&v));
            let (vc, vs) = (self.head(ve.certain.view(), group), self.head(ve.sigma.view(), group));
            let moved = pc.dot(&v) + (&p + &pc).dot(&vc);
            let certain = &moved + &((&p + &pc).dot(&(&v + &vc)) * c) + floor;
            let squares = |a: ArrayView2<'_, f64>| a.mapv(|x| x * x);
            let carried = squares(ps).dot(&(squares(v.view()) + squares(vs))) + squares(p).dot(&squares(vs));
            let products = squares(p).dot(&squares(v.view()));
            let columns = s![.., self.columns(head)];
            for ((i, j), &limit) in certain.indexed_iter() {
                let y = o.slice(columns)[[i, j]];
                let divided = (divided * y).powi(2) + floor * floor / 3.0;
                let variance = own.map(|own| carried[[i, j]] + own * (products[[i, j]] + y * y) + divided);
                error.sigma.slice_mut(columns)[[i, j]] = variance.map_or(limit, |v| v.sqrt().min(limit));
            }
            error.certain.slice_mut(columns).assign(&certain);
        }
        error.rounded(o.view(), self.output.storage)
    }

    /// c of a sum of so many weighted values: that of the accumulator, and of a running sum that is kept in a narrower type,
    /// where each step rounds a product, a sum and what is rescaled.
    fn summed(&self, keys: usize) -> f64 {
        (1.0 + self.accumulator.certain(keys)) * (1.0 + gamma(3 * keys, self.sum.unit_roundoff())) - 1.0
    }

    /// u of R2 on the way from scores to o, and what is lost below its numbers: of one rounding, or of two that go different ways.
    fn weight_error(&self) -> (f64, f64) {
        let (u, lost) = (self.probabilities.storage.unit_roundoff(), self.probabilities.storage.underflow());
        if self.narrowed { ((1.0 + u) / (1.0 - u) - 1.0, 2.0 * lost) } else { (u, lost) }
    }

    /// The scores, and their exponentials, as the truth has them.
    fn unrounded(&self) -> Attention {
        Attention { scores: Rounding::NONE, exponential: Exponential::Library, mode: Mode::Nearest, ..*self }
    }

    /// κ without R2 and the sum of values: the sum of weights, the division, the rescalings of an online softmax; of splits that
    /// are put together otherwise, a sum and a rescaling more.
    fn softmax_error(&self, keys: usize) -> f64 {
        let rescalings = (keys / RESCALED_EVERY + 1) as f64;
        let once = gamma(keys, self.unit) + (3.0 + rescalings * (2.0 + EXPONENTIAL)) * self.unit;
        if self.merged.is_some() { 2.0 * once } else { once }
    }

    /// The products' error, R1 twice, and the scaling, in base 2 or not.
    fn score_error(&self, inputs: &Inputs<'_>, head: usize, first: usize, softmax: &Softmax<f64>) -> ScoreError {
        let (rows, keys) = softmax.scores.dim();
        let queries = |a: &Array2<f64>| self.head(a.view(), head).slice(s![first..first + rows, ..]).to_owned();
        let past = |a: &Array2<f64>| self.head(a.view(), self.key_head(head)).slice(s![..keys, ..]).to_owned();
        let Inputs { q, k, qe, ke } = inputs;
        let (q, qc, qs) = (queries(&q.value).mapv(f64::abs), queries(&qe.certain), queries(&qe.sigma));
        let (k, kc, ks) = (past(&k.value).mapv(f64::abs), past(&ke.certain), past(&ke.sigma));
        let u1 = self.scores.storage.unit_roundoff();
        let floor =
            (self.head_dim + 2) as f64 * self.accumulator.smallest_normal() + 2.0 * self.scores.storage.underflow();

        let flushed = |x: f64| if x.is_finite() { self.accumulator.flushed_factor() * self.scale * x } else { x };
        let [of_queries, of_keys] = [&q + &qc, &k + &kc].map(|x| x.sum_axis(Axis(1)).mapv(flushed));

        let carried = ((&q + &qc).dot(&kc.t()) + qc.dot(&k.t())) * self.scale;
        let summed = (&q + &qc).dot(&(&k + &kc).t()) * (self.accumulator.certain(self.head_dim) * self.scale);
        let square = |a: &Array2<f64>| a.mapv(|x| x * x);
        let (q2, k2, qs2, ks2) = (square(&q), square(&k), square(&qs), square(&ks));
        let root = |variance: Array2<f64>| variance.mapv(|v| v.sqrt() * self.scale);
        let mut error = ScoreError {
            certain: carried + &summed,
            own: root((q2.clone() + &qs2).dot(&ks2.t())),
            shared: root(qs2.dot(&k2.t())),
        };
        let products = q2.dot(&k2.t());
        for (at, d) in error.certain.indexed_iter_mut() {
            let score = softmax.scores[at];
            if score == f64::NEG_INFINITY {
                (*d, error.own[at], error.shared[at]) = (0.0, 0.0, 0.0);
                continue;
            }
            let size = score.abs() + *d;
            let lost = floor + of_queries[at.0] + of_keys[at.1];
            let roundings = 2.0 * u1 * (1.0 + u1) * size + (3.0 * self.unit + self.cap_error()) * size + lost;
            let sum = match self.accumulator.variance(self.head_dim) {
                Some(own) => own * (products[at] * self.scale * self.scale + score * score),
                None => summed[at].powi(2),
            };
            *d += roundings;
            error.own[at] = (error.own[at].powi(2) + sum + roundings * roundings / 3.0).sqrt().min(*d);
        }
        error
    }
}

impl<'a> Inputs<'a> {
    fn new(q: &'a Tracked<f64>, k: &'a Tracked<f64>) -> Self {
        Inputs { q, k, qe: q.error_or_exact(), ke: k.error_or_exact() }
    }
}

impl ScoreError {
    /// d: with the rounding of the difference to the largest score, and the exponential's own error.
    fn exponentiated(mut self, softmax: &Softmax<f64>, p: &Attention) -> Self {
        let (unit, function) = (p.unit, -(-p.exponential.off()).ln_1p());
        Zip::indexed(&mut self.certain).and(&mut self.own).and(&softmax.scores).for_each(|(i, _), d, own, &score| {
            if score > f64::NEG_INFINITY {
                let largest = softmax.largest[i];
                let exponent = unit * (2.0 * largest.abs() + (score - largest).abs() + EXPONENTIAL) + function;
                *d += exponent;
                *own = together(*own, exponent / 3.0_f64.sqrt()).min(*d);
            }
        });
        if p.merged.is_some() { self.merged() } else { self }
    }

    /// 4δ of each row, which is one draw for all of its keys.
    fn merged(mut self) -> Self {
        let most = |row: ArrayView1<'_, f64>| row.iter().copied().fold(0.0, f64::max);
        for i in 0..self.certain.nrows() {
            let certain = COUNTED * most(self.certain.row(i));
            let shared = COUNTED * together(most(self.own.row(i)), most(self.shared.row(i)));
            self.certain.row_mut(i).fill(certain);
            self.own.row_mut(i).fill(0.0);
            self.shared.row_mut(i).fill(shared.min(certain));
        }
        self
    }
}

impl Weights {
    /// How far the j-th probability may be off, of a score that may be off by d; with a softmax's own error, and a floor.
    fn certain(&self, j: usize, d: f64, own: f64, floor: f64) -> f64 {
        let p = self.probability[j];
        let moved = (self.highest[j] - p).max(p * (1.0 - (-d).exp() / self.upper));
        moved + own * (p + moved) + floor
    }

    fn new(softmax: &Softmax<f64>, i: usize, scores: &ScoreError, (sink, is_merged): (Option<f64>, bool)) -> Self {
        let (d, sum) = (scores.certain.row(i).to_vec(), softmax.sums[i]);
        let probability: Vec<f64> = softmax.weights.row(i).iter().map(|w| w / sum).collect();
        let logarithm: Vec<f64> = if is_merged {
            // What is lost beside its split's largest is less than any number.
            let log = |(p, score): (&f64, &f64)| if *score > f64::NEG_INFINITY { p.max(LEAST).ln() } else { *score };
            probability.iter().zip(softmax.scores.row(i)).map(log).collect()
        } else {
            softmax.scores.row(i).iter().map(|s| s - softmax.largest[i] - sum.ln()).collect()
        };
        // A sink has the rest, and no error.
        let rest = sink.map_or(0.0, |sink| (sink - softmax.largest[i]).exp() / sum);
        let spread = |d: &[f64]| {
            let lower = if is_merged {
                1.0
            } else {
                rest + probability.iter().zip(d).map(|(p, d)| p * (-d).exp()).sum::<f64>()
            };
            Spread::new(&probability, &logarithm, d, lower)
        };
        let certain = spread(&d);
        let eighth = |sigma: ArrayView1<'_, f64>| {
            if sigma.iter().all(|s| *s == 0.0) {
                return vec![0.0; sigma.len()];
            }
            let eightfold: Vec<f64> = sigma.iter().map(|s| CONFIDENT * s).collect();
            spread(&eightfold).moved.into_iter().map(|m| m / CONFIDENT).collect()
        };
        let lowest = logarithm.iter().map(|l| (l - certain.log_lower).exp());
        let raised = || logarithm.iter().zip(&d).map(|(l, d)| (l + d).exp()).sum::<f64>() + rest;
        Weights {
            highest: certain.moved.iter().zip(lowest).map(|(moved, lowest)| (moved + lowest).min(1.0)).collect(),
            own: eighth(scores.own.row(i)),
            shared: eighth(scores.shared.row(i)),
            upper: if is_merged { 1.0 } else { raised() },
            spread: certain.moved,
            probability,
        }
    }
}

/// What errors d of the scores do to probabilities.
struct Spread {
    /// p·(exp d − 1) / L.
    moved: Vec<f64>,
    /// ln L.
    log_lower: f64,
}

impl Spread {
    /// Of p, its logarithm, d and L. Where errors are so large that p or L underflow, of logarithms, and p·exp d / L.
    fn new(p: &[f64], log_p: &[f64], d: &[f64], lower: f64) -> Self {
        let lowered = || log_p.iter().zip(d).map(|(l, d)| l - d);
        let normal = lower > f64::MIN_POSITIVE.sqrt();
        let log_lower = if normal {
            lower.ln()
        } else {
            let top = lowered().fold(f64::NEG_INFINITY, f64::max);
            top + lowered().map(|l| (l - top).exp()).sum::<f64>().ln()
        };
        let moved = p.iter().zip(log_p).zip(d).map(|((&p, log_p), d)| {
            let is_whole = normal && p >= f64::MIN_POSITIVE;
            let moved = if is_whole { p * d.exp_m1() / lower } else { (log_p + d - log_lower).exp() };
            moved.min(f64::MAX)
        });
        Spread { moved: moved.collect(), log_lower }
    }
}

fn largest(x: &Array2<f64>) -> f64 {
    x.iter().copied().fold(0.0, f64::max)
}
