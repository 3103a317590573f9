//! What an RMS norm divides by and multiplies with.
//!
//! ```text
//! yᵢⱼ = sᵢ·vⱼ·ŷᵢⱼ/wⱼ        solved for s and v; right are s = 1 and v = w
//! ```
//!
//! with y the candidate's and ŷ the right values, w the weight.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, Axis, Zip, s};
use reference::semantics::NormWeight;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// How far values may be off, in what roundings leave of a row, to be the same: s and v carry those of others, too.
const SAME: f64 = 4.0;

/// Rounds in which s and v are solved for in turn. Each is exact given the other, and their product has rank 1, so each round
/// squares what separates it from that.
const ROUNDS: usize = 40;

/// What may be left of how far rows' mean squares are off: what ε, which these squares have not, does to a sum of few channels.
const MOVED: f64 = 0.01;

/// Channels that are told one by one.
const TOLD: usize = 4;

/// A norm that all columns of have one weight: a layer's, or that of one head.
struct Norm {
    /// ŷ/w: of mean square 1, but for ε.
    z: Array2<f64>,
    y: Array2<f64>,
    w: Array1<f64>,
    /// How far values may be off to be the same.
    same: f64,
}

/// What a norm's values say.
struct Found {
    what: String,
    /// Of each row.
    s: Array1<f64>,
    /// Of each channel.
    v: Array1<f64>,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Some(of) = weight(bench.site) else { return Ok(Vec::new()) };
    // Of its input at most the last sum is not shown, attention under its second name, and what stands before all layers.
    let is_sum = |site: &Site| matches!(site, Site::Layer(_, LayerSite::Residual | LayerSite::Attention));
    let mut in_layer = bench.suspects.iter().filter(|site| site.layer() == bench.site.layer() && **site != bench.site);
    if in_layer.any(|site| !is_sum(site)) {
        return Ok(Vec::new());
    }
    let w = effective(bench, of)?;
    let width = w.len();
    if width == 0 || !bench.candidate.ncols().is_multiple_of(width) || w.iter().any(|w| w.abs() < 1e-6) {
        return Ok(Vec::new());
    }
    let others = others(bench, of)?;
    let same = SAME * bench.rounding();
    let heads = bench.candidate.ncols() / width;
    let (mut said, mut values) = (Vec::new(), bench.ideal.clone());
    for head in 0..heads {
        let columns = head * width..(head + 1) * width;
        let of_head = |values: &Array2<f64>| values.slice(s![.., columns.clone()]).to_owned();
        let norm = Norm { z: of_head(&bench.ideal) / &w, y: of_head(&bench.candidate), w: w.clone(), same };
        let Some(Found { what, s, v }) = norm.solve(&others) else { continue };
        said.push(if heads > 1 { format!("head {head}: {what}") } else { what });
        values.slice_mut(s![.., columns]).assign(&(&norm.z * &v * &s.insert_axis(Axis(1))));
    }
    Ok((!said.is_empty()).then(|| Solution::new(said, values)).into_iter().collect())
}

/// The weight of a norm.
fn weight(site: Site) -> Option<Weight> {
    let Site::Layer(layer, site) = site else { return (site == Site::FinalNorm).then_some(Weight::FinalNorm) };
    let of = match site {
        LayerSite::InputNorm => LayerWeight::InputNorm,
        LayerSite::PostAttentionNorm => LayerWeight::PostAttentionNorm,
        LayerSite::QNorm => LayerWeight::QNorm,
        LayerSite::KNorm => LayerWeight::KNorm,
        LayerSite::IndexQNorm => LayerWeight::IndexQNorm,
        LayerSite::IndexKNorm => LayerWeight::IndexKNorm,
        _ => return None,
    };
    Some(Weight::Layer(layer, of))
}

/// What a norm multiplies by.
pub(super) fn effective(bench: &Bench<'_, '_>, of: Weight) -> Result<Array1<f64>, Failure> {
    let one = if bench.config().norm_weight == NormWeight::OnePlus { 1.0 } else { 0.0 };
    bench.with_model(|model| {
        let w = model.weights().get(of).map_err(reference::Error::from)?;
        Ok(w.dense::<f64>().into_iter().map(|w| w + one).collect())
    })
}

/// Weights of other norms.
fn others(bench: &Bench<'_, '_>, own: Weight) -> Result<Vec<(String, Array1<f64>)>, Failure> {
    let config = bench.config();
    let layer = bench.site.layer().unwrap_or_default();
    let mut of = vec![LayerWeight::InputNorm, LayerWeight::PostAttentionNorm, LayerWeight::QNorm, LayerWeight::KNorm];
    if config.index_of(layer).is_some() {
        of.extend([LayerWeight::IndexQNorm, LayerWeight::IndexKNorm]);
    }
    let all = of.into_iter().map(|of| Weight::Layer(layer, of)).chain([Weight::FinalNorm]);
    all.filter(|of| *of != own).map(|of| Ok((of.to_string(), effective(bench, of)?))).collect()
}

impl Norm {
    /// What differs, if this equation holds of it.
    fn solve(&self, others: &[(String, Array1<f64>)]) -> Option<Found> {
        let right = self.factors(self.w.view());
        if self.holds(&right, self.w.view()) {
            let (what, s) = self.statistic(&right)?;
            return Some(Found { what, s, v: self.w.clone() });
        }
        let v = self.both(right)?;
        let what = self.weight(&v, others)?;
        Some(Found { what, s: self.factors(v.view()), v })
    }

    /// sᵢ by least squares, where the weight is v.
    fn factors(&self, v: ArrayView1<'_, f64>) -> Array1<f64> {
        let each = self.y.rows().into_iter().zip(self.z.rows());
        each.map(|(y, z)| {
            let x = &z * &v;
            y.dot(&x) / x.dot(&x)
        })
        .collect()
    }

    /// Whether the values are those of s and v.
    fn holds(&self, s: &Array1<f64>, v: ArrayView1<'_, f64>) -> bool {
        let rows = self.y.rows().into_iter().zip(self.z.rows()).zip(s);
        let is = |((y, z), s): ((ArrayView1<'_, f64>, ArrayView1<'_, f64>), &f64)| {
            let apart = &y - &(&z * &v * *s);
            apart.dot(&apart).sqrt() <= self.same * y.dot(&y).sqrt()
        };
        rows.into_iter().all(is)
    }

    /// v, solved for in turn with s; of its size so that the median of s is 1.
    fn both(&self, mut s: Array1<f64>) -> Option<Array1<f64>> {
        let mut v = self.w.clone();
        for _ in 0..ROUNDS {
            let columns = self.y.columns().into_iter().zip(self.z.columns());
            v = columns.map(|(y, z)| y.dot(&(&z * &s)) / (&z * &s).mapv(|x| x * x).sum()).collect();
            s = self.factors(v.view());
        }
        let mut sorted = s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        let (s, v) = (s / median, v * median);
        self.holds(&s, v.view()).then_some(v)
    }

    /// What is summed in place of all squares, by what rows are too large.
    fn statistic(&self, s: &Array1<f64>) -> Option<(String, Array1<f64>)> {
        let (n, width) = self.z.dim();
        // 1/s² is the mean square that was taken, where the right one is 1.
        let taken = s.mapv(|s| (s * s).recip());
        let squares = self.z.mapv(|z| z * z);
        let moved = taken.iter().fold(0.0, |most: f64, taken| most.max((taken - 1.0).abs()));
        let limit = (4.0 * self.same).max(MOVED * moved);
        let is = |sums: &Array1<f64>, count: usize| {
            Zip::from(sums).and(&taken).all(|sum, taken| (sum / count as f64 - taken).abs() <= limit)
        };
        if n < 2 || taken.iter().all(|taken| (taken - 1.0).abs() <= 4.0 * self.same) {
            return None;
        }
        let of = |range: Range<usize>| squares.slice(s![.., range]).sum_axis(Axis(1));
        for count in (1..width).rev() {
            for (range, which) in [(0..count, "first"), (width - count..width, "last")] {
                let sums = of(range);
                for divisor in [width, count] {
                    if is(&sums, divisor) {
                        let what = format!(
                            "the mean square has the {which} {count} of {width} channels, divided by {divisor}"
                        );
                        return Some((what, sums.mapv(|sum| (sum / divisor as f64).sqrt().recip())));
                    }
                }
            }
        }
        None
    }

    /// What v is, beside w.
    fn weight(&self, v: &Array1<f64>, others: &[(String, Array1<f64>)]) -> Option<String> {
        let width = self.w.len();
        let is = |a: f64, b: f64| (a - b).abs() <= 4.0 * self.same * b.abs();
        let alike = |v: &Array1<f64>, w: &Array1<f64>| Zip::from(v).and(w).all(|v, w| is(*v, *w));
        // v is known but for a factor, which all of s have in common.
        let scaled = |w: &Array1<f64>| v * (w.dot(v) / v.dot(v));
        let is_w = |w: &Array1<f64>| alike(&scaled(w), w);
        if is_w(&self.w.mapv(|w| w * w)) {
            return Some("the norm is applied twice: its weight is there twice".to_owned());
        }
        for rows in (2..width).filter(|rows| width.is_multiple_of(*rows)) {
            let columns = width / rows;
            let transposed: Array1<f64> = (0..width).map(|i| self.w[i % rows * columns + i / rows]).collect();
            if is_w(&transposed) {
                return Some(format!("the weight is read as [{rows}, {columns}] transposed"));
            }
        }
        for by in 1..width {
            let rotated: Array1<f64> = (0..width).map(|i| self.w[(i + by) % width]).collect();
            if is_w(&rotated) {
                return Some(format!("each channel has the weight of the one {by} behind it, modulo {width}"));
            }
        }
        let own = of_others(others, width, |w| is_w(w));
        if let Some((name, first)) = own {
            return Some(format!("the weight is that of {name} from channel {first} on"));
        }
        self.channels(v, others)
    }

    /// Channels that have another weight, where most have the right one.
    fn channels(&self, v: &Array1<f64>, others: &[(String, Array1<f64>)]) -> Option<String> {
        let is = |a: f64, b: f64| (a - b).abs() <= 4.0 * self.same * b.abs();
        // The factor that all have in common: that of most of them.
        let mut factors: Vec<f64> = v.iter().zip(&self.w).map(|(v, w)| v / w).collect();
        factors.sort_by(f64::total_cmp);
        let v = v / factors[factors.len() / 2];
        let other: Vec<usize> = (0..v.len()).filter(|j| !is(v[*j], self.w[*j])).collect();
        let (first, last) = (*other.first()?, *other.last()?);
        if 2 * other.len() >= v.len() {
            return None;
        }
        let part = v.slice(s![first..=last]).to_owned();
        let found = of_others(others, part.len(), |w| Zip::from(&part).and(w).all(|v, w| is(*v, *w)));
        if let Some((name, from)) = found {
            return Some(format!("channels {first} to {last} have the weight of {name} from channel {from} on"));
        }
        let told = other.iter().take(TOLD).map(|j| format!("{:.4} for {:.4} in channel {j}", v[*j], self.w[*j]));
        Some(format!("{} channels have another weight: {}", other.len(), told.collect::<Vec<_>>().join(", ")))
    }
}

/// The weight, and the channel of it, from which on so many channels are what is looked for.
fn of_others(
    others: &[(String, Array1<f64>)],
    width: usize,
    is: impl Fn(&Array1<f64>) -> bool,
) -> Option<(&str, usize)> {
    others.iter().find_map(|(name, w)| {
        let firsts = 0..(w.len() + 1).saturating_sub(width);
        firsts
            .into_iter()
            .find(|first| is(&w.slice(s![*first..first + width]).to_owned()))
            .map(|first| (&name[..], first))
    })
}
