//! The error bound of attention (Blanchard, Higham & Higham 2021 for the softmax; the rest derived here).
//!
//! Let a score be off by at most dⱼ, the error of the exponential included. Then the weights' ratio to their true
//! values lies in exp(±dⱼ), and because the softmax divides by their sum,
//!
//! ```text
//! |ô − o| ≤ Σⱼ pⱼ·(exp dⱼ − 1)·|vⱼ − o| / Σⱼ pⱼ·exp(−dⱼ)  +  κ·Σⱼ pⱼ·(|vⱼ| + eⱼ)  +  Σⱼ pⱼ·exp(2 max d)·eⱼ
//! ```
//!
//! with κ for R2, the two sums and the division, and e the error of v. The first term is centred on o: what moves all
//! scores alike cannot matter.

use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};

use super::{Attention, BLOCK, Softmax};
use crate::accumulator::gamma;
use crate::bound::ErrorBound;
use crate::rounding::AttentionRound;
use crate::tracked::Tracked;

/// A device's exponential is within so many u.
const EXPONENTIAL: f64 = 4.0;

/// An online softmax may rescale its sums once for so many keys.
const RESCALED_EVERY: usize = 16;

/// Errors of the scores of a block, relative errors of the exponential included.
struct ScoreError {
    certain: Array2<f64>,
    sigma: Array2<f64>,
}

impl Attention {
    /// Of the fused operator: q, k and v in, o out.
    pub fn bound(&self, q: &Tracked<f64>, k: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let (qe, ke, ve) = (q.error_or_exact(), k.error_or_exact(), v.error_or_exact());
        let mut error = ErrorBound::exact(o.dim());
        error.carried = carried(&[&qe, &ke, &ve]);
        let d = self.head_dim;
        let certain = error.certain.axis_chunks_iter_mut(Axis(1), d).into_par_iter();
        certain.zip(error.sigma.axis_chunks_iter_mut(Axis(1), d)).enumerate().for_each(|(head, (mut c, mut s))| {
            let value = self.head(v.view(), self.key_head(head));
            let value_error = self.head(ve.certain.view(), self.key_head(head));
            let value_sigma = self.head(ve.sigma.view(), self.key_head(head));
            for first in (0..o.nrows()).step_by(BLOCK) {
                let rows = BLOCK.min(o.nrows() - first);
                let softmax = self.softmax(q.view(), k.view(), head, first, rows);
                let scores = self.score_error(q, &qe, k, &ke, head, first, &softmax);
                for i in 0..rows {
                    let probability = softmax.weights.row(i).mapv(|w| w / softmax.sums[i]);
                    let out = o.slice(s![first + i, self.columns(head)]);
                    let (spread, shift) = spread(&probability, scores.certain.row(i), scores.sigma.row(i));
                    let from = Mean { probability: &probability, value, value_error, value_sigma, out };
                    let (certain, sigma) = self.mean_error(&from, &spread, &shift);
                    c.row_mut(first + i).assign(&certain);
                    s.row_mut(first + i).assign(&sigma);
                }
            }
        });
        error.rounded(o.view(), self.output.storage)
    }

    /// Of the scaled scores, from q and k; 0 where masked.
    pub fn bound_scores(&self, q: &Tracked<f64>, k: &Tracked<f64>, scores: &Array2<f64>) -> ErrorBound {
        let (qe, ke) = (q.error_or_exact(), k.error_or_exact());
        let mut error = ErrorBound::exact(scores.dim());
        error.carried = carried(&[&qe, &ke]);
        let n = q.value.nrows();
        for head in 0..self.query_heads {
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let softmax = self.softmax(q.view(), k.view(), head, first, rows);
                let part = self.score_error(q, &qe, k, &ke, head, first, &softmax);
                let at = s![head * n + first..head * n + first + rows, ..softmax.scores.ncols()];
                error.certain.slice_mut(at).assign(&part.certain);
                error.sigma.slice_mut(at).assign(&part.sigma);
            }
        }
        error
    }

    /// Of the probabilities, from q and k.
    pub fn bound_probabilities(&self, q: &Tracked<f64>, k: &Tracked<f64>, p: &Array2<f64>) -> ErrorBound {
        let (qe, ke) = (q.error_or_exact(), k.error_or_exact());
        let mut error = ErrorBound::exact(p.dim());
        error.carried = carried(&[&qe, &ke]);
        let n = q.value.nrows();
        let own = self.softmax_error(p.ncols());
        let floor = self.accumulator.smallest_normal();
        let certain = error.certain.axis_chunks_iter_mut(Axis(0), n).into_par_iter();
        certain.zip(error.sigma.axis_chunks_iter_mut(Axis(0), n)).enumerate().for_each(|(head, (mut c, mut s))| {
            for first in (0..n).step_by(BLOCK) {
                let rows = BLOCK.min(n - first);
                let softmax = self.softmax(q.view(), k.view(), head, first, rows);
                let scores = self.score_error(q, &qe, k, &ke, head, first, &softmax);
                for i in 0..rows {
                    let probability = softmax.weights.row(i).mapv(|w| w / softmax.sums[i]);
                    let d = scores.certain.row(i);
                    let (lower, upper) = sums_of_exponentials(&probability, d);
                    let shift: f64 = probability.iter().zip(scores.sigma.row(i)).map(|(p, s)| (p * s).powi(2)).sum();
                    for j in (0..probability.len()).filter(|&j| probability[j] > 0.0) {
                        let p = probability[j];
                        let moved = p * (d[j].exp() / lower - 1.0).max(1.0 - (-d[j]).exp() / upper);
                        c[[first + i, j]] = moved + own * (p + moved) + floor;
                        let variance = (p * scores.sigma[[i, j]]).powi(2) + p * p * shift + (p * own).powi(2) / 3.0;
                        s[[first + i, j]] = variance.sqrt().min(c[[first + i, j]]);
                    }
                }
            }
        });
        match self.order {
            AttentionRound::Eager => error.rounded(p.view(), self.probabilities.storage),
            AttentionRound::Flash => error,
        }
    }

    /// Of o, from given probabilities and v.
    pub fn bound_context(&self, p: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let (pe, ve) = (p.error_or_exact(), v.error_or_exact());
        let mut error = ErrorBound::exact(o.dim());
        error.carried = carried(&[&pe, &ve]);
        let (n, keys) = (o.nrows(), v.value.nrows());
        let c = self.accumulator.certain(keys);
        let own = self.accumulator.variance(keys);
        let floor = keys as f64 * self.accumulator.smallest_normal();
        for head in 0..self.query_heads {
            let rows = s![head * n..(head + 1) * n, ..];
            let (p, pc, ps) = (p.value.slice(rows), pe.certain.slice(rows), pe.sigma.slice(rows));
            let group = self.key_head(head);
            let v = self.head(v.view(), group).mapv(f64::abs);
            let (vc, vs) = (self.head(ve.certain.view(), group), self.head(ve.sigma.view(), group));
            let moved = pc.dot(&v) + (&p + &pc).dot(&vc);
            let certain = &moved + &((&p + &pc).dot(&(&v + &vc)) * c) + floor;
            let squares = |a: ArrayView2<'_, f64>| a.mapv(|x| x * x);
            let carried = squares(ps).dot(&squares(v.view())) + squares(p).dot(&squares(vs));
            let products = squares(p).dot(&squares(v.view()));
            let columns = s![.., self.columns(head)];
            for ((i, j), &limit) in certain.indexed_iter() {
                let y = o.slice(columns)[[i, j]];
                let variance = own.map(|own| carried[[i, j]] + own * (products[[i, j]] + y * y));
                error.sigma.slice_mut(columns)[[i, j]] = variance.map_or(limit, |v| v.sqrt().min(limit));
            }
            error.certain.slice_mut(columns).assign(&certain);
        }
        error.rounded(o.view(), self.output.storage)
    }

    /// κ without R2 and the sum of values: the sum of weights, the division, the rescalings of an online softmax.
    fn softmax_error(&self, keys: usize) -> f64 {
        let rescalings = (keys / RESCALED_EVERY + 1) as f64;
        gamma(keys, self.unit) + (3.0 + rescalings * (2.0 + EXPONENTIAL)) * self.unit
    }

    /// dⱼ: the products' error and R1 scaled, the scaling in base 2, the exponent's rounding, the exponential.
    #[expect(clippy::too_many_arguments, reason = "queries and keys each come with their error")]
    fn score_error(
        &self,
        q: &Tracked<f64>,
        qe: &ErrorBound,
        k: &Tracked<f64>,
        ke: &ErrorBound,
        head: usize,
        first: usize,
        softmax: &Softmax<f64>,
    ) -> ScoreError {
        let (rows, keys) = softmax.scores.dim();
        let queries = |a: &Array2<f64>| self.head(a.view(), head).slice(s![first..first + rows, ..]).to_owned();
        let past = |a: &Array2<f64>| self.head(a.view(), self.key_head(head)).slice(s![..keys, ..]).to_owned();
        let (q, qc, qs) = (queries(&q.value).mapv(f64::abs), queries(&qe.certain), queries(&qe.sigma));
        let (k, kc, ks) = (past(&k.value).mapv(f64::abs), past(&ke.certain), past(&ke.sigma));
        let c = self.accumulator.certain(self.head_dim);
        let (u, u1) = (self.unit, self.scores.storage.unit_roundoff());

        let carried = (&q + &qc).dot(&kc.t()) + qc.dot(&k.t());
        let products = (&q + &qc).dot(&(&k + &kc).t()) * c + &carried;
        let square = |a: &Array2<f64>| a.mapv(|x| x * x);
        let (q2, k2) = (square(&q), square(&k));
        let mut variance = q2.dot(&square(&ks).t()) + square(&qs).dot(&k2.t());
        let own = self.accumulator.variance(self.head_dim);
        if let Some(own) = own {
            variance = variance + q2.dot(&k2.t()) * own;
        }
        let mut error = ScoreError { certain: products * self.scale, sigma: Array2::zeros((rows, keys)) };
        for ((i, j), d) in error.certain.indexed_iter_mut() {
            let score = softmax.scores[[i, j]];
            if score == f64::NEG_INFINITY {
                *d = 0.0;
                continue;
            }
            let accumulated = *d;
            let largest = softmax.largest[i];
            let stored =
                2.0 * u1 * (1.0 + u1) * (score.abs() + accumulated) + 2.0 * self.scores.storage.underflow();
            let exponent = u * (3.0 * score.abs() + 2.0 * largest.abs() + (score - largest).abs() + EXPONENTIAL);
            *d = accumulated + stored + exponent;
            let own = own.map_or(accumulated, |own| own.sqrt() * score.abs());
            let carried = variance[[i, j]].sqrt() * self.scale;
            let roundings = (stored.powi(2) + exponent.powi(2)) / 3.0;
            error.sigma[[i, j]] = (carried.powi(2) + own.powi(2) + roundings).sqrt().min(*d);
        }
        error
    }

    /// The error of Σⱼ pⱼ·vⱼ whose weights are off as `spread` says.
    fn mean_error(&self, from: &Mean<'_>, spread: &[f64], shift: &[f64]) -> (Array1<f64>, Array1<f64>) {
        let keys = from.probability.len();
        let u2 = self.probabilities.storage.unit_roundoff();
        let sums = self.accumulator.certain(keys);
        let kappa = (1.0 + u2) * (1.0 + sums) * (1.0 + self.softmax_error(keys)) - 1.0;
        let largest = spread
            .iter()
            .zip(from.probability)
            .fold(0.0_f64, |top, (s, p)| if *p > 0.0 { top.max(s / p) } else { top });
        let floor = keys as f64 * (self.accumulator.smallest_normal() + self.probabilities.storage.underflow());
        let rest = sums + self.softmax_error(keys);
        let own = self.accumulator.variance(keys);
        let d = self.head_dim;
        let (mut certain, mut sigma) = (Array1::zeros(d), Array1::zeros(d));
        for channel in 0..d {
            let o = from.out[channel];
            let (mut moved, mut total, mut variance, mut biggest) = (0.0, 0.0, 0.0, 0.0_f64);
            for j in 0..keys {
                let (p, v) = (from.probability[j], from.value[[j, channel]]);
                let (ve, vs) = (from.value_error[[j, channel]], from.value_sigma[[j, channel]]);
                moved += spread[j] * (v - o).abs() + p * ve * (1.0 + largest).powi(2);
                total += p * (v.abs() + ve);
                variance += (shift[j] * (v - o)).powi(2) + (p * vs).powi(2) + (u2 * p * v).powi(2) / 3.0;
                biggest = biggest.max(v.abs() + ve);
            }
            certain[channel] = moved + kappa * (total + moved) + floor * biggest.max(1.0);
            let rest = match own {
                Some(own) => (own * (total * total + o * o)).sqrt() + self.softmax_error(keys) * o.abs(),
                None => rest * total,
            };
            sigma[channel] = (variance + rest * rest).sqrt().min(certain[channel]);
        }
        (certain, sigma)
    }
}

/// A weighted mean of values and what is known of it.
struct Mean<'a> {
    probability: &'a Array1<f64>,
    value: ArrayView2<'a, f64>,
    value_error: ArrayView2<'a, f64>,
    value_sigma: ArrayView2<'a, f64>,
    out: ArrayView1<'a, f64>,
}

/// pⱼ·(exp dⱼ − 1) / Σ p·exp(−d), and the standard deviation pⱼ·σⱼ.
fn spread(p: &Array1<f64>, d: ArrayView1<'_, f64>, sigma: ArrayView1<'_, f64>) -> (Vec<f64>, Vec<f64>) {
    let (lower, _) = sums_of_exponentials(p, d);
    let certain = p.iter().zip(d).map(|(p, d)| if *p > 0.0 { p * d.exp_m1() / lower } else { 0.0 }).collect();
    (certain, p.iter().zip(sigma).map(|(p, s)| p * s).collect())
}

/// Σ p·exp(−d) and Σ p·exp(d).
fn sums_of_exponentials(p: &Array1<f64>, d: ArrayView1<'_, f64>) -> (f64, f64) {
    p.iter()
        .zip(d)
        .filter(|(p, _)| **p > 0.0)
        .fold((0.0, 0.0), |(lower, upper), (p, d)| (lower + p * (-d).exp(), upper + p * d.exp()))
}

/// One matrix product more than the worst of the inputs, if any input has an error.
fn carried(inputs: &[&ErrorBound]) -> u32 {
    let deepest = inputs.iter().map(|e| e.carried).max().unwrap_or(0);
    deepest + u32::from(inputs.iter().any(|e| !e.is_exact()))
}
