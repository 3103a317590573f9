//! What an RMS norm divides by and multiplies with.
//!
//! ```text
//! yᵢⱼ = sᵢ·vⱼ·ŷᵢⱼ/wⱼ        solved for s and v; right are s = 1 and v = w
//! ```
//!
//! with y \[n, d\] the candidate's and ŷ \[n, d\] the right values, the weight w \[d\], s \[n\] and v \[d\]: of a layer,
//! or of each head. [`statistic`] has what s may be made of, [`channels`] what v may be, [`denominator`] what rows may be divided by
//! otherwise, or [`groups`] of channels, and [`bits`] what is rounded; a norm may be applied [`twice`], or to what a [`bias`] is added to.

mod bias;
mod bits;
mod channels;
mod denominator;
mod groups;
mod statistic;
mod twice;

use ndarray::{Array1, Array2, ArrayView1, Axis, Zip, s};
use reference::semantics::NormWeight;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Site};

use self::channels::Channels;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;
use crate::judge::way;

/// How far values may be off, in what roundings leave of a row, to be the same: s and v carry those of others, too.
const SAME: f64 = 4.0;

/// Rounds in which s and v are solved for in turn, each by least squares given the other. As in the power method, each round makes
/// what is apart from the solution less by the square of the second singular value's share of the first: next to nothing, where
/// their product is all that there is.
const ROUNDS: usize = 40;

/// A weight that nothing can be solved by.
const NONE: f64 = 1e-6;

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
    // Where of its input more is not shown than the last sum, attention under its second name, and what stands before all layers, its
    // weight is not told from that of a product before it.
    let is_sum = |site: &Site| matches!(site, Site::Layer(_, LayerSite::Residual | LayerSite::Attention));
    let mut in_layer = bench.suspects.iter().filter(|site| site.layer() == bench.site.layer() && **site != bench.site);
    let is_known = in_layer.all(is_sum);
    let w = effective(bench, of)?;
    let width = w.len();
    if width == 0 || !bench.candidate.ncols().is_multiple_of(width) || w.iter().any(|w| w.abs() < NONE) {
        return Ok(Vec::new());
    }
    let others = others(bench, of)?;
    if let Some(solution) = of_statistics(bench)? {
        return Ok(vec![solution]);
    }
    if let Some(solution) = twice::solve(bench, &w).filter(|solution| solution.is_more(bench)) {
        return Ok(vec![solution]);
    }
    let same = SAME * bench.rounding();
    let heads = bench.candidate.ncols() / width;
    let (mut found, mut values) = (Vec::new(), bench.ideal.clone());
    let read = input(bench, bench.contract())?.zip(input(bench, RoundingContract::IDEAL)?);
    let read = read.filter(|(x, unrounded)| [x, unrounded].into_iter().all(|of| of.dim() == bench.candidate.dim()));
    // As a norm has it that stores what is normed before it is weighed; one that does not is rounded once, as all solutions are.
    let output = bench.contract().shown();
    let mut stored = bench.twin.computed.clone();
    for head in 0..heads {
        let columns = head * width..(head + 1) * width;
        let of_head = |values: &Array2<f64>| values.slice(s![.., columns.clone()]).to_owned();
        let norm = Norm { z: of_head(&bench.ideal) / &w, y: of_head(&bench.candidate), w: w.clone(), same };
        let Some(Found { what, s, v }) = norm.solve(&others, is_known) else { continue };
        found.push((head, what));
        let s = s.insert_axis(Axis(1));
        let as_read = read.as_ref().map(|(x, unrounded)| renormed(&norm.z, &of_head(x), &of_head(unrounded)));
        let normed = (as_read.unwrap_or_else(|| norm.z.clone()) * &s).mapv_into(|x| output.nearest(x));
        stored.slice_mut(s![.., columns.clone()]).assign(&(normed * &v).mapv_into(|y| output.nearest(y)));
        values.slice_mut(s![.., columns]).assign(&(norm.z * &s * v));
    }
    let solution = (!found.is_empty()).then(|| Solution::new(said(found, heads), values).or_stored(bench, stored));
    if let Some(solution) = solution.filter(|solution| solution.is_more(bench)) {
        return Ok(vec![solution]);
    }
    if let Some(solution) = groups::solve(bench, &w) {
        return Ok(vec![solution]);
    }
    let solution = read.and_then(|(x, unrounded)| {
        let of_bias = if is_known { None } else { bias::solve(bench, &unrounded, &w) };
        of_bias.or_else(|| denominator::solve(bench, &x, &w)).or_else(|| bits::solve(bench, &x, &unrounded, &w))
    });
    Ok(solution.into_iter().collect())
}

/// What is right before the weight, of x in place of what it was computed from: both have the same ε.
fn renormed(z: &Array2<f64>, x: &Array2<f64>, unrounded: &Array2<f64>) -> Array2<f64> {
    let mut normed = x.clone();
    for ((mut x, z), u) in normed.rows_mut().into_iter().zip(z.rows()).zip(unrounded.rows()) {
        let (_, eps) = statistic::root(z, u);
        let root = (x.dot(&x) / x.len() as f64 + eps).sqrt();
        if root > 0.0 {
            x /= root;
        }
    }
    normed
}

/// The values of a norm whose sum of squares is divided by another number, as an unbiased variance's, which is no parameter.
pub(super) fn of_statistics(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let Some(of) = weight(bench.site) else { return Ok(None) };
    let w = effective(bench, of)?;
    if w.is_empty() || w.iter().any(|w| w.abs() < NONE) {
        return Ok(None);
    }
    let read = input(bench, bench.contract())?.zip(input(bench, RoundingContract::IDEAL)?);
    Ok(read.and_then(|(x, unrounded)| bits::of_divisor(bench, &x, &unrounded, &w)))
}

/// What goes into a norm, as a contract stores it where it is not shown.
fn input(bench: &Bench<'_, '_>, contract: RoundingContract) -> Result<Option<Array2<f64>>, Failure> {
    let of = |site| match site {
        Site::FinalNorm => Some(Site::Layer(bench.config().num_hidden_layers.checked_sub(1)?, LayerSite::Output)),
        Site::Layer(layer, LayerSite::InputNorm) if layer > 0 => Some(Site::Layer(layer - 1, LayerSite::Output)),
        site => way::inputs(site).into_iter().next(),
    };
    let Some(input) = of(bench.site) else { return Ok(None) };
    let x = match bench.rerun(&[], contract, &[input])?.beside.remove(&input) {
        Some(x) => Some(x),
        None => bench.shown_in_all_steps(input)?,
    };
    if x.is_some() || input != Site::InputsEmbeds {
        return Ok(x);
    }
    // A text model's first layer reads the embedding under a name that nothing shows; where no more is shown of it, it is right.
    match bench.shown_in_all_steps(Site::Embedding)? {
        None if bench.media().is_empty() => bench.embedded(contract).map(Some),
        x => Ok(x),
    }
}

/// What is said of heads, once if it is the same of all.
fn said(found: Vec<(usize, String)>, heads: usize) -> Vec<String> {
    match &found[..] {
        [(_, what)] if heads == 1 => vec![what.clone()],
        [(_, first), others @ ..] if found.len() == heads && others.iter().all(|(_, what)| what == first) => {
            vec![format!("every head: {first}")]
        }
        _ => found.into_iter().map(|(head, what)| format!("head {head}: {what}")).collect(),
    }
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
    // Of the last norm, those of the last layer.
    let layer = bench.site.layer().unwrap_or(config.num_hidden_layers.saturating_sub(1));
    let mut of = vec![LayerWeight::InputNorm, LayerWeight::PostAttentionNorm, LayerWeight::QNorm, LayerWeight::KNorm];
    if config.index_of(layer).is_some() {
        of.extend([LayerWeight::IndexQNorm, LayerWeight::IndexKNorm]);
    }
    let all = of.into_iter().map(|of| Weight::Layer(layer, of)).chain([Weight::FinalNorm]);
    all.filter(|of| *of != own).map(|of| Ok((of.to_string(), effective(bench, of)?))).collect()
}

impl Norm {
    /// What differs, if this equation holds of it; the weight only where what goes in is known.
    fn solve(&self, others: &[(String, Array1<f64>)], is_known: bool) -> Option<Found> {
        let right = self.factors(self.w.view());
        if self.holds(&right, self.w.view()) {
            let (what, s) = statistic::told(&self.z, &right)?;
            return Some(Found { what, s, v: self.w.clone() });
        }
        let v = self.both(right).filter(|_| is_known)?;
        let s = self.factors(v.view());
        let what = Channels { deviation: self.deviation(&s, &v)?, v: &v, w: &self.w }.told(others)?;
        Some(Found { what, s, v })
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

    /// The standard deviation of each channel's v, by what is left of its own column or of all, whichever is more; of one row,
    /// nothing is left.
    fn deviation(&self, s: &Array1<f64>, v: &Array1<f64>) -> Option<Array1<f64>> {
        let n = self.y.nrows();
        if n < 2 {
            return None;
        }
        let z = &self.z * &s.view().insert_axis(Axis(1));
        let squares = |x: ArrayView1<'_, f64>| x.dot(&x);
        let left = &self.y - &(&z * v);
        let share = (left.iter().map(|x| x * x).sum::<f64>() / self.y.iter().map(|y| y * y).sum::<f64>()).sqrt();
        let each = Zip::from(left.columns()).and(z.columns()).and(v).map_collect(|left, z, v| {
            let own = (squares(left) / (n - 1) as f64 / squares(z)).sqrt();
            own.max(share * v.abs() / (n as f64).sqrt())
        });
        Some(each)
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
}
