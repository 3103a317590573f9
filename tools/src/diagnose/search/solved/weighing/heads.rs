//! Attention's heads in a layer, computed again with other keys.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, concatenate, s, stack};
use reference::config::Attention;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Site};

use super::super::least_squares::solve;
use super::way::Way;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// What may be left of a row's difference under a way, as a share of its norm. What is left of a right way is rounding, and this
/// allows roundings a tenth as large as the fault; that one of a few hundred wrong ways leaves so little of as many independent
/// differences as a row has channels, does not happen from some ten channels on.
const LEFT: f64 = 0.1;

/// Steps of Newton's method: it doubles its digits with each, from slopes of 0 on, which are far below the scores.
const STEPS: usize = 12;

/// Keys of a token that are looked for together.
const KEYS: usize = 4;

/// What a key more has to leave of the distance, at most: a fifth less, where keys by chance take next to nothing off.
const NEARER: f64 = 0.8;

/// Queries, keys and values of a layer, and what attention's output is multiplied by.
pub(super) struct Heads {
    pub(super) count: usize,
    groups: usize,
    pub(super) d: usize,
    q: Array2<f64>,
    k: Array2<f64>,
    v: Array2<f64>,
    /// o's weight, transposed; without one, o itself is shown.
    output: Option<Array2<f64>>,
}

impl Heads {
    /// Of attention to all keys whose output, or context, is at fault.
    pub(super) fn of(bench: &Bench<'_, '_>) -> Result<Option<Self>, Failure> {
        let Site::Layer(layer, at @ (LayerSite::Context | LayerSite::OProj | LayerSite::Attention)) = bench.site else {
            return Ok(None);
        };
        let of_layer = |site| Site::Layer(layer, site);
        let config = bench.config();
        let is_seen = bench.suspects.contains(&of_layer(LayerSite::Context));
        if config.layer(layer).attention != Attention::Full || !is_seen {
            return Ok(None);
        }
        let wanted = [LayerSite::QRope, LayerSite::KRope, LayerSite::VProj].map(of_layer);
        let mut beside = bench.rerun(&[], RoundingContract::IDEAL, &wanted)?.beside;
        let [Some(q), Some(k), Some(v)] = wanted.map(|site| beside.remove(&site)) else { return Ok(None) };
        let n = bench.candidate.nrows();
        if [&q, &k, &v].into_iter().any(|rows| rows.nrows() != n) {
            return Ok(None);
        }
        let output = if at == LayerSite::Context {
            None
        } else {
            let of = Weight::Layer(layer, LayerWeight::OProj);
            Some(bench.with_model(|model| {
                let w = model.weights().get(of).map_err(reference::Error::from)?;
                Ok(w.dense::<f64>().reversed_axes())
            })?)
        };
        let (heads, groups) = (config.num_attention_heads, config.num_key_value_heads);
        Ok(Some(Heads { count: heads, groups, d: config.head_dim, q, k, v, output }))
    }

    fn columns(&self, head: usize) -> Range<usize> {
        head * self.d..(head + 1) * self.d
    }

    /// A token's scores of the keys in a head.
    fn scores(&self, row: usize, head: usize) -> Array1<f64> {
        let query = self.q.slice(s![row, self.columns(head)]);
        let keys = self.k.slice(s![.., self.columns(head * self.groups / self.count)]);
        keys.dot(&query) / (self.d as f64).sqrt()
    }

    fn values(&self, head: usize) -> ArrayView2<'_, f64> {
        self.v.slice(s![.., self.columns(head * self.groups / self.count)])
    }

    /// A token's context by what each head makes of its scores and values.
    fn context(&self, row: usize, of: impl Fn(&Array1<f64>, ArrayView2<'_, f64>) -> Array1<f64>) -> Array1<f64> {
        joined(&(0..self.count).map(|head| of(&self.scores(row, head), self.values(head))).collect::<Vec<_>>())
    }

    pub(super) fn right(&self, row: usize) -> Array1<f64> {
        self.context(row, |scores, values| mean(scores, values, |j| j <= row, 0))
    }

    fn under(&self, row: usize, way: Way) -> Array1<f64> {
        self.context(row, |scores, values| match way {
            Way::Without(key) => mean(scores, values, |j| j <= row && j != key, 0),
            Way::Zeroed(key) => mean(scores, values, |j| j <= row && j != key, 1),
            Way::Ahead(key) => mean(scores, values, |j| j <= row || j == key, 0),
            Way::From(first) => mean(scores, values, |j| (first..=row).contains(&j), 0),
            Way::Before(end) => mean(scores, values, |j| j < end, 0),
            Way::Zeros(count) => mean(scores, values, |j| j <= row, count),
            Way::Unsummed(size) => unsummed(scores, values, row, size),
        })
    }

    pub(super) fn output(&self, context: ArrayView1<'_, f64>) -> Array1<f64> {
        match &self.output {
            Some(w) => context.dot(w),
            None => context.to_owned(),
        }
    }

    /// By how much the scores of each head fall with a key's distance, if that is all: solved for by Newton's method.
    pub(super) fn slopes(&self, rows: &[usize], bench: &Bench<'_, '_>) -> Option<String> {
        let ideal: f64 = rows.iter().map(|row| squares(&(&bench.candidate.row(*row) - &bench.ideal.row(*row)))).sum();
        let mut slopes = vec![0.0; self.count];
        for _ in 0..STEPS {
            let (mut apart, mut columns) = (Vec::new(), Vec::new());
            for &row in rows {
                let (context, derivative) = self.sloping(row, &slopes);
                apart.extend(&bench.candidate.row(row) - &self.output(context.view()));
                let each: Vec<Array1<f64>> = (0..self.count)
                    .map(|head| {
                        let mut alone = Array1::zeros(context.len());
                        alone.slice_mut(s![self.columns(head)]).assign(&derivative.slice(s![self.columns(head)]));
                        self.output(alone.view())
                    })
                    .collect();
                columns.extend(
                    (0..each[0].len()).flat_map(|j| each.iter().map(move |column| column[j]).collect::<Vec<_>>()),
                );
            }
            let columns = Array2::from_shape_vec((apart.len(), self.count), columns).ok()?;
            let apart = Array1::from(apart);
            if squares(&apart) <= LEFT * LEFT * ideal {
                let told: Vec<String> = slopes.iter().map(|slope| format!("{slope:.4}")).collect();
                return Some(format!("scores fall with each token of distance, in its heads by {}", told.join(", ")));
            }
            let solution = solve(columns.view(), apart.view())?;
            slopes.iter_mut().zip(solution.x).for_each(|(slope, by)| *slope += by);
        }
        None
    }

    /// A token's context where scores fall with distance, and its derivative by each head's slope.
    ///
    /// ```text
    /// ∂o/∂m = o·Σⱼ pⱼδⱼ − Σⱼ pⱼδⱼvⱼ        with pⱼ ∝ exp(sⱼ − m·δⱼ) and the distances δⱼ
    /// ```
    fn sloping(&self, row: usize, slopes: &[f64]) -> (Array1<f64>, Array1<f64>) {
        let distances: Array1<f64> = (0..self.k.nrows()).map(|j| row as f64 - j as f64).collect();
        let distances = distances.insert_axis(Axis(1));
        let each = slopes.iter().enumerate().map(|(head, slope)| {
            let scores = self.scores(row, head) - distances.column(0).mapv(|distance| slope * distance);
            let mean_of = |values: ArrayView2<'_, f64>| mean(&scores, values, |j| j <= row, 0);
            let context = mean_of(self.values(head));
            let far = mean_of(distances.view())[0];
            let derivative = &context * far - mean_of((&distances * &self.values(head)).view());
            (context, derivative)
        });
        let (contexts, derivatives): (Vec<_>, Vec<_>) = each.unzip();
        (joined(&contexts), joined(&derivatives))
    }

    /// The way under which a row is the candidate's, the nearest of those under which it is; or several keys that are missing, or
    /// are zeros.
    pub(super) fn ways(&self, row: usize, bench: &Bench<'_, '_>) -> Vec<Way> {
        let limit = LEFT * Self::distance(row, bench.ideal.row(row), bench);
        let ways = Way::all(row, self.k.nrows());
        let contexts = ways.iter().map(|way| self.under(row, *way)).collect();
        if let Some((least, nearest)) = self.nearest(row, contexts, bench)
            && least <= limit
        {
            return vec![ways[nearest]];
        }
        let lost = [(0, Way::Without as fn(usize) -> Way), (1, Way::Zeroed)];
        let mut several =
            lost.into_iter().filter_map(|(zeros, way)| Some((self.keys(row, (zeros, limit), bench)?, way)));
        several.next().map(|(keys, way)| keys.into_iter().map(way).collect()).unwrap_or_default()
    }

    /// Keys without which, or with so many zeros in the place of each, a row is the candidate's: the one that leaves least, then the
    /// next.
    fn keys(&self, row: usize, (zeros, limit): (usize, f64), bench: &Bench<'_, '_>) -> Option<Vec<usize>> {
        let mut keys: Vec<usize> = Vec::new();
        let mut left = f64::INFINITY;
        while keys.len() < KEYS.min(row) {
            let others: Vec<usize> = (0..=row).filter(|key| !keys.contains(key)).collect();
            let without = |key: usize| {
                let is_seen = |j: usize| j <= row && j != key && !keys.contains(&j);
                self.context(row, |scores, values| mean(scores, values, is_seen, zeros * (keys.len() + 1)))
            };
            let (least, nearest) = self.nearest(row, others.iter().map(|key| without(*key)).collect(), bench)?;
            if least > NEARER * left {
                return None;
            }
            left = least;
            keys.push(others[nearest]);
            if least <= limit {
                return Some(keys);
            }
        }
        None
    }

    fn distance(row: usize, values: ArrayView1<'_, f64>, bench: &Bench<'_, '_>) -> f64 {
        squares(&(&values - &bench.candidate.row(row))).sqrt()
    }

    /// How far the nearest of some contexts is from a candidate's row, and which it is.
    fn nearest(&self, row: usize, contexts: Vec<Array1<f64>>, bench: &Bench<'_, '_>) -> Option<(f64, usize)> {
        let contexts: Array2<f64> = stack(Axis(0), &contexts.iter().map(|of| of.view()).collect::<Vec<_>>()).ok()?;
        let outputs = match &self.output {
            Some(w) => contexts.dot(w),
            None => contexts,
        };
        let each = outputs.rows().into_iter().enumerate().map(|(i, values)| (Self::distance(row, values, bench), i));
        each.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

fn squares(x: &Array1<f64>) -> f64 {
    x.dot(x)
}

fn joined(heads: &[Array1<f64>]) -> Array1<f64> {
    concatenate(Axis(0), &heads.iter().map(|head| head.view()).collect::<Vec<_>>()).expect("vectors")
}

/// The mean of the values of the keys that are seen, and of so many zeros whose score is 0.
fn mean(
    scores: &Array1<f64>,
    values: ArrayView2<'_, f64>,
    is_seen: impl Fn(usize) -> bool,
    zeros: usize,
) -> Array1<f64> {
    let seen = scores.indexed_iter().filter(|(j, _)| is_seen(*j));
    let largest = seen.map(|(_, score)| *score).fold(if zeros > 0 { 0.0 } else { f64::NEG_INFINITY }, f64::max);
    let weights = Array1::from_iter(
        scores.indexed_iter().map(|(j, score)| if is_seen(j) { (score - largest).exp() } else { 0.0 }),
    );
    let sum = weights.sum() + zeros as f64 * (-largest).exp();
    weights.dot(&values) / sum
}

/// Of splits' means by what their largest scores alone make of them.
fn unsummed(scores: &Array1<f64>, values: ArrayView2<'_, f64>, row: usize, size: usize) -> Array1<f64> {
    let splits = (0..=row).step_by(size).map(|first| first..(first + size).min(row + 1));
    let each: Vec<(f64, Array1<f64>)> = splits
        .map(|split| {
            let largest = scores.slice(s![split.clone()]).fold(f64::NEG_INFINITY, |most, score| f64::max(most, *score));
            (largest, mean(scores, values, |j| split.contains(&j), 0))
        })
        .collect();
    let largest = each.iter().map(|(largest, _)| *largest).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = each.iter().map(|(of, _)| (of - largest).exp()).sum();
    let total =
        each.iter().fold(Array1::zeros(values.ncols()), |total, (of, mean)| total + mean * (of - largest).exp());
    total / sum
}
