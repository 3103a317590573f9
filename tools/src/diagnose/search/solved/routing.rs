//! How a router's weights follow from its scores.
//!
//! ```text
//! wᵢₛ = c·rᵢₛ / (Σₜ rᵢₜ + δ)               solved for c and δ; right are c = 1 and δ = 0
//! wᵢₛ = rᵢₛ / Σₜ (rᵢₜ + bᵢₜ)                with the choice's bias b
//! wᵢₛ = σ(β·zᵢₛ) / Σₜ σ(β·zᵢₜ)              solved for β; right is 1
//! wᵢₛ = rᵢₛᵖ / Σₜ rᵢₜᵖ                      solved for p; right is 1
//! wᵢₛ = rᵢₛ / Σₜ rᵢₜ                       over those t whose experts are of the rank of that of s; solved for how many ranks
//! wᵢₛ = exp xᵢₛ / Σₜ exp xᵢₜ                of the weights themselves, or the scores
//! wᵢₛ = rᵢₛ / maxₜ rᵢₜ,  rᵢₛ / √(Σₜ rᵢₜ²),  (rᵢₛ / Σₜ rᵢₜ)²,  or divided by a sum of more scores than were chosen
//! wᵢₛ = q(σ(q(zᵢₛ))) / Σₜ q(σ(q(zᵢₜ)))      solved for q, or one of both, among what numbers may be rounded to
//! ```
//!
//! with the weights w \[n, k\] of each token's choices, r \[n, k\] their scores without bias, and z = ln(r/(1 − r)) their logits.

use std::collections::BTreeSet;

use ndarray::{Array1, Array2, Axis, stack};
use reference::weights::{LayerWeight, Weight};
use reference::{Error, LayerSite, Real, RoundingContract, Site, Storage};

use super::curve::{Curve, Point};
use super::least_squares;
use super::listed::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// How far weights may be off, in roundings of f32, to be the same: a score, a sum of up to eight, a quotient and a product on both
/// sides.
pub(super) const SAME: f64 = 16.0;

/// How many standard deviations a number is from none that is told.
const CERTAIN: f64 = 8.0;

/// The steepest sigmoid that is looked for, each next one so many times as steep, from its reciprocal on; and how often the
/// interval around the best is made shorter by a third: beyond f64's digits.
const STEEPEST: f64 = 16.0;
const STEPS: usize = 64;
const THIRDS: usize = 100;

/// Tokens that have several experts on a rank, and tokens that have some elsewhere, at least, where ranks are told.
const RANKED: usize = 4;

/// One weight in so many may be another than rounding makes it.
const TIES: usize = 20;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Layer(layer, LayerSite::GateWeights) = bench.site else { return Ok(Vec::new()) };
    let of = Site::Layer(layer, LayerSite::GateScores);
    let rerun = bench.rerun(&[], RoundingContract::IDEAL, &[of])?;
    let (Some(scores), Some(chosen)) = (rerun.beside.get(&of), &rerun.experts) else { return Ok(Vec::new()) };
    if chosen.dim() != bench.candidate.dim() || scores.nrows() != chosen.nrows() {
        return Ok(Vec::new());
    }
    let own = Weights { right: &bench.ideal, own: &bench.candidate, same: SAME * Storage::F32.unit_roundoff() };
    let said = own.law(bench, layer, scores, chosen).map(|(said, values)| Solution::new(vec![said], values));
    let r = of_chosen(scores, chosen);
    let of_curve = || if own.are_off() { function(&r, &bench.candidate) } else { None };
    Ok(said.or_else(of_curve).into_iter().collect())
}

/// Weights of each token's choices.
pub(super) struct Weights<'a> {
    /// As they should be.
    pub(super) right: &'a Array2<f64>,
    pub(super) own: &'a Array2<f64>,
    /// How far they may be off to be the same.
    pub(super) same: f64,
}

impl Weights<'_> {
    fn are_off(&self) -> bool {
        !are_same(self.right, self.own, self.same)
    }

    /// What the weights of chosen experts follow from their scores by, if they are not the right ones; with those that do.
    pub(super) fn law(
        &self,
        bench: &Bench<'_, '_>,
        layer: usize,
        scores: &Array2<f64>,
        chosen: &Array2<usize>,
    ) -> Option<(String, Array2<f64>)> {
        let Weights { right, own, same } = *self;
        if !self.are_off() {
            return None;
        }
        let r = of_chosen(scores, chosen);
        let bias = bias(bench, layer).filter(|bias| bias.len() == scores.ncols());
        let biased = bias.as_ref().map(|bias| {
            let sums = (&r + &chosen.mapv(|expert| bias[expert])).sum_axis(Axis(1));
            &r / &sums.insert_axis(Axis(1))
        });
        biased
            .filter(|values| are_same(values, own, same))
            .map(|values| ("the scores are divided by the sum of those with their bias".to_owned(), values))
            .or_else(|| left_out(right, own, same))
            .or_else(|| exchanged(right, own, same))
            .or_else(|| of_sums(&r, own, same))
            .or_else(|| of_more(scores, chosen, bias.as_deref(), own, same))
            .or_else(|| of_ranks(right, chosen, scores.ncols(), own, same))
            .or_else(|| in_place(&r, own, same))
            .or_else(|| of_rows([right, &r], own, same))
            .or_else(|| rounded(&r, own, same))
            .or_else(|| steeper(&r, own, same))
            .or_else(|| power(&r, own, same))
    }
}

/// What a router adds to scores to choose by; it may have none.
pub(super) fn bias(bench: &Bench<'_, '_>, layer: usize) -> Option<Vec<f64>> {
    let of = Weight::Layer(layer, LayerWeight::CorrectionBias);
    let bias = bench.with_model(|model| Ok(model.weights().get(of).map_err(Error::from)?.dense::<f64>()));
    bias.ok().map(|bias| bias.into_iter().collect())
}

/// The scores of the experts that each token has.
fn of_chosen(scores: &Array2<f64>, chosen: &Array2<usize>) -> Array2<f64> {
    Array2::from_shape_fn(chosen.dim(), |(i, s)| scores[[i, chosen[[i, s]]]])
}

fn are_same(a: &Array2<f64>, b: &Array2<f64>, same: f64) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= same * b.abs())
}

/// Weights that are 0, where the others are right: those of the least scores, or of one slot.
fn left_out(right: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let is_right = |(w, right): (&f64, &f64)| *w == 0.0 || (w - right).abs() <= same * right.abs();
    let lost: Vec<(usize, usize)> =
        w.indexed_iter().filter(|(at, w)| **w == 0.0 && right[*at] > 0.0).map(|(at, _)| at).collect();
    if lost.is_empty() || !w.iter().zip(right).all(is_right) {
        return None;
    }
    let is_least = |&(i, s): &(usize, usize)| right.row(i).iter().all(|other| right[[i, s]] <= *other);
    let which = if lost.iter().all(is_least) {
        "the least of their weights".to_owned()
    } else if lost.iter().all(|(_, slot)| *slot == lost[0].1) {
        format!("the weight of choice {}", lost[0].1 + 1)
    } else {
        "some of their weights".to_owned()
    };
    let rows: BTreeSet<usize> = lost.iter().map(|(row, _)| *row).collect();
    Some((format!("of {} of {} tokens, {which} is 0, and the others are right", rows.len(), w.nrows()), w.clone()))
}

/// Weights that each choice has of another, the same of all tokens.
fn exchanged(right: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let is_of = |own: usize, other: usize| {
        let pairs = w.column(own).into_iter().zip(right.column(other));
        pairs.into_iter().all(|(a, b)| (a - b).abs() <= same * b.abs())
    };
    let source = |own: usize| (0..right.ncols()).find(|other| is_of(own, *other));
    let sources: Vec<usize> = (0..w.ncols()).map(source).collect::<Option<_>>()?;
    let moved: Vec<String> = sources
        .iter()
        .enumerate()
        .filter(|(own, other)| own != *other)
        .map(|(own, other)| format!("{} that of {}", own + 1, other + 1))
        .collect();
    let is_permutation = sources.iter().collect::<BTreeSet<_>>().len() == sources.len();
    (is_permutation && !moved.is_empty()).then(|| {
        let said = format!("a token's experts have each other's weights: of its choices, {}", listed(moved));
        (said, right.select(Axis(1), &sources))
    })
}

/// One factor for each token, by the sum of its scores; with the weights that follow.
fn of_sums(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let sums = r.sum_axis(Axis(1));
    let factors = w.sum_axis(Axis(1)) / &sums;
    if !are_same(&(r * &factors.view().insert_axis(Axis(1))), w, same) {
        return None;
    }
    // Σ + δ = c/f, where f is the factor.
    let ones = sums.mapv(|_| 1.0);
    let columns = stack(Axis(1), &[sums.view(), ones.view()]).ok()?;
    let solution = least_squares::solve(columns.view(), factors.mapv(f64::recip).view())
        .filter(|solution| solution.left.sqrt() <= same)?;
    let ([slope, rest], [of_slope, of_rest]) = (&solution.x[..], &solution.deviation[..]) else { return None };
    let (is_sloped, is_certain) = (slope.abs() > CERTAIN * of_slope, rest.abs() > CERTAIN * of_rest);
    if !is_sloped && !is_certain {
        return None; // all sums are alike
    }
    if !is_sloped || slope.abs() <= same * rest.abs() {
        let said = format!("the weights are the scores times {:.5}, whatever their sum", rest.recip());
        return Some((said, r / *rest));
    }
    let (c, delta) = (slope.recip(), rest / slope);
    let said = format!("the weights are the scores divided by their sum and {delta:.5} more, times {c:.5}");
    Some((said, c * r / sums.mapv(|sum| sum + delta).insert_axis(Axis(1))))
}

/// Each score divided by a sum in which those before it are divided already.
fn in_place(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let mut divided = r.clone();
    for mut row in divided.rows_mut() {
        for slot in 0..row.len() {
            row[slot] /= row.sum();
        }
    }
    let said =
        "each score is divided by a sum in which those before it are divided already: it is summed again and in place";
    are_same(&divided, w, same).then(|| (said.to_owned(), divided))
}

/// Scores divided by the sum of more than were chosen: the next one's, too, or all.
fn of_more(
    scores: &Array2<f64>,
    chosen: &Array2<usize>,
    bias: Option<&[f64]>,
    w: &Array2<f64>,
    same: f64,
) -> Option<(String, Array2<f64>)> {
    let r = of_chosen(scores, chosen);
    let next = |i: usize| {
        let row = scores.row(i);
        let others = (0..row.len()).filter(|e| chosen.row(i).iter().all(|own| own != e));
        let ranked = |e: usize| row[e] + bias.map_or(0.0, |bias| bias[e]);
        others.max_by(|a, b| ranked(*a).total_cmp(&ranked(*b))).map_or(0.0, |e| row[e])
    };
    let sums = r.sum_axis(Axis(1));
    let of_next = Array1::from_shape_fn(sums.len(), |i| sums[i] + next(i));
    let k = chosen.ncols();
    let ways = [
        (format!("the scores are divided by the sum of {} that are chosen first, and {k} are used", k + 1), of_next),
        ("the scores are divided by the sum of all experts'".to_owned(), scores.sum_axis(Axis(1))),
    ];
    let of = |(said, sums): (String, Array1<f64>)| (said, &r / &sums.insert_axis(Axis(1)));
    ways.into_iter().map(of).find(|(_, values)| are_same(values, w, same))
}

/// Weights that are divided by their sum over the experts of each rank, of several that have so many experts each, one behind the other.
fn of_ranks(
    right: &Array2<f64>,
    chosen: &Array2<usize>,
    experts: usize,
    w: &Array2<f64>,
    same: f64,
) -> Option<(String, Array2<f64>)> {
    let k = chosen.ncols();
    (2..=experts / 2).filter(|ranks| experts.is_multiple_of(*ranks)).find_map(|ranks| {
        let each = experts / ranks;
        let of_rank = |(i, s): (usize, usize)| -> f64 {
            let rank = chosen[[i, s]] / each;
            chosen.row(i).iter().zip(right.row(i)).filter(|(e, _)| **e / each == rank).map(|(_, w)| w).sum()
        };
        let total = right.sum_axis(Axis(1));
        let values = Array2::from_shape_fn(right.dim(), |at| right[at] * total[at.0] / of_rank(at));
        // Of a rank that has one of a token's experts, its weight is 1, and of one that has all it is right: either may be another slip.
        let on_rank = |(i, s): (usize, usize)| chosen.row(i).iter().filter(|e| **e / each == chosen[[i, s]] / each).count();
        let rows = |is: &dyn Fn(usize) -> bool| (0..w.nrows()).filter(|i| (0..k).any(|s| is(on_rank((*i, s))))).count();
        let are_told = rows(&|count| count > 1) >= RANKED && rows(&|count| count < k) >= RANKED;
        (are_told && are_same(&values, w, same)).then(|| {
            let said = format!(
                "weights are divided by the sum over those of a token's experts that are on one rank, and not over all: {ranks} \
                 ranks have {each} experts each"
            );
            (said, values)
        })
    })
}

/// What a softmax makes of the weights or the scores, weights that are multiplied with twice, and scores that are divided by the
/// largest, or by what makes the sum of their squares 1.
fn of_rows([right, r]: [&Array2<f64>; 2], w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let softmax = |x: &Array2<f64>| {
        let weights = x.mapv(f64::exp);
        let sums = weights.sum_axis(Axis(1)).insert_axis(Axis(1));
        weights / sums
    };
    let root = r.map_axis(Axis(1), |row| row.dot(&row).sqrt());
    let largest = r.map_axis(Axis(1), |row| row.fold(0.0_f64, |largest, x| largest.max(*x)));
    let ways = [
        ("the weights go through a softmax once more", softmax(right)),
        ("the weights are the softmax of the scores", softmax(r)),
        ("the weights count twice: each is its square", right.mapv(|w| w * w)),
        ("the scores are divided by the root of the sum of their squares", r / root.insert_axis(Axis(1))),
        ("the scores are divided by the largest of them", r / largest.insert_axis(Axis(1))),
    ];
    let found = ways.into_iter().find(|(_, values)| are_same(values, w, same));
    found.map(|(said, values)| (said.to_owned(), values))
}

/// Scores that are the sigmoid of logits times a factor β, the one whose weights are nearest: the nearest of several β, and
/// between its neighbours the least of a function that has one there.
fn steeper(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let z = r.mapv(|r| (r / (1.0 - r)).ln());
    let weights = |beta: f64| {
        let scores = z.mapv(|z| (1.0 + (-beta * z).exp()).recip());
        let sums = scores.sum_axis(Axis(1)).insert_axis(Axis(1));
        scores / sums
    };
    let distance = |beta: f64| (weights(beta) - w).mapv(|apart| apart * apart).sum();
    let each = (2.0 * STEEPEST.ln() / STEPS as f64).exp();
    let betas = (0..=STEPS).map(|step| each.powf(step as f64) / STEEPEST).map(|beta| (distance(beta), beta));
    let (_, nearest) = betas.filter(|(off, _)| off.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (mut low, mut high) = (nearest / each, nearest * each);
    for _ in 0..THIRDS {
        let third = (high - low) / 3.0;
        if distance(low + third) < distance(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    let beta = f64::midpoint(low, high);
    let values = weights(beta);
    // Squares tell β to half of f64's digits, and its last ones are those of all weights together.
    are_same(&values, w, 4.0 * same)
        .then(|| (format!("the scores are the sigmoid of {beta:.4} times the router's logits"), values))
}

/// Scores of logits that are rounded, or that are rounded themselves.
fn rounded(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let ways =
        [(true, false, "the logits are"), (false, true, "the scores are"), (true, true, "logits and scores are")];
    let all = [Storage::Bf16, Storage::F16].into_iter().flat_map(|to| ways.map(|way| (to, way)));
    let of = |(to, (of_logits, of_scores, what)): (Storage, (bool, bool, &str))| {
        let score = |r: &f64| {
            let r = if of_logits { to.nearest((r / (1.0 - r)).ln()).sigmoid() } else { *r };
            if of_scores { to.nearest(r) } else { r }
        };
        let scores = r.map(score);
        let sums = scores.sum_axis(Axis(1)).insert_axis(Axis(1));
        let values = scores / sums;
        let off = values.iter().zip(w).filter(|(a, b)| (*a - *b).abs() > same * b.abs()).count();
        // Of few, a rounding is decided by what is left of sums before it.
        (TIES * off <= w.len()).then(|| (format!("{what} rounded to {to}"), values))
    };
    all.into_iter().find_map(of)
}

/// Scores to a power, divided by their sum.
fn power(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<(String, Array2<f64>)> {
    let (mut along, mut size) = (0.0, 0.0);
    for (r, w) in r.rows().into_iter().zip(w.rows()) {
        for s in 1..r.len() {
            let (x, y) = ((r[s] / r[0]).ln(), (w[s] / w[0]).ln());
            along += x * y;
            size += x * x;
        }
    }
    let p = along / size;
    let p = if (p - p.round()).abs() < 1e-3 { p.round() } else { p };
    let raised = r.mapv(|r| r.powf(p));
    let sums = raised.sum_axis(Axis(1)).insert_axis(Axis(1));
    let values = raised / sums;
    (p.is_finite() && are_same(&values, w, 4.0 * same))
        .then(|| (format!("the weights are the scores to the power {p:.4}, divided by their sum"), values))
}

/// Scores by another function of the logits: beside one another each is off by what its logit says.
fn function(r: &Array2<f64>, w: &Array2<f64>) -> Option<Solution> {
    let point = |(r, w): (&f64, &f64)| -> Point { [(r / (1.0 - r)).ln(), (w / r).ln()] };
    let finite = |[x, y]: &Point| x.is_finite() && y.is_finite();
    let rows = r.rows().into_iter().zip(w.rows());
    let groups: Vec<Vec<Point>> = rows.map(|(r, w)| r.iter().zip(w).map(point).filter(finite).collect()).collect();
    let [least, most] = Curve::of(&groups)?.ends()?;
    Some(Solution::without_values(format!(
        "weights are as if the router's sigmoid were another function of its argument: beside one another scores are off over a \
         range of {:.3} %, most at {:.2} and least at {:.2}",
        100.0 * (most[1] - least[1]),
        most[0],
        least[0]
    )))
}
