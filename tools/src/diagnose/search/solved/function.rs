//! A function of one number that stands in the place of another, as where an activation is approximated, or logits are capped.
//!
//! ```text
//! yᵢ = g(xᵢ)        element by element, where f(xᵢ) is right; solved for g
//! ```
//!
//! with x what the operator reads, or the right value itself. Of independent errors, one and the next in the order of x are apart
//! by √2 deviations; where they follow x, by next to nothing (von Neumann 1941).

use std::f64::consts::PI;

use ndarray::Array2;
use reference::site::{VisionLayerSite, VisionSite};
use reference::{LayerSite, Real, RoundingContract, Site, Storage};

use super::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Values by which it is told: of so many independent errors the quotient that [`FOLLOWS`] limits has a standard deviation of a
/// quarter.
const LEAST: usize = 64;

/// The squared steps of errors that follow their argument, as a share of their squares about the mean: of independent ones, twice
/// as much as these.
const FOLLOWS: f64 = 0.1;

/// How many times as large as the unit roundoff of its value the largest error is that is told: a few operations in that type have
/// less.
const LARGE: f64 = 16.0;

/// Roundings of f32 that sums leave of the largest value: those of thousands of terms, whose roundings go either way.
const SUMS: f64 = 64.0;

/// A function and its name.
type Known = (&'static str, fn(f64) -> f64);

/// Functions that stand in for one another.
const KNOWN: [Known; 9] = [
    ("the argument itself", |x| x),
    ("ReLU of its argument", |x| x.max(0.0)),
    ("its argument's square where that is above 0, and else 0", |x| x.max(0.0).powi(2)),
    ("SiLU of its argument", |x| x * x.sigmoid()),
    ("GELU of its argument as tanh approximates it", |x| {
        0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
    }),
    ("GELU of its argument as a sigmoid approximates it, x·σ(1.702·x)", |x| x * (1.702 * x).sigmoid()),
    ("a hard swish of its argument, x·min(max(x + 3, 0), 6)/6", |x| x * ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
    ("a hard sigmoid of its argument, min(max(x + 3, 0), 6)/6", |x| ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
    ("the softplus of its argument", |x| x.exp().ln_1p()),
];

/// An argument, the candidate's value and the right one.
pub(super) type Point = [f64; 3];

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Some((argument, name)) = argument(bench.site) else { return Ok(Vec::new()) };
    let x = if argument == bench.site {
        Some(bench.ideal.clone())
    } else {
        let mut beside = bench.rerun(&[], RoundingContract::IDEAL, &[argument])?.beside;
        beside.remove(&argument).filter(|x| x.dim() == bench.candidate.dim())
    };
    let Some(x) = x else { return Ok(Vec::new()) };
    let all = x.iter().zip(&bench.candidate).zip(&bench.ideal);
    let mut points: Vec<Point> = all.map(|((x, own), right)| [*x, *own, *right]).collect();
    let largest = points.iter().fold(0.0, |most: f64, [_, own, _]| most.max(own.abs()));
    // What is stored, and what the argument's sums leave of it.
    let of_sums = SUMS * Storage::F32.unit_roundoff() * largest;
    let is_near = |own: f64, value: f64| (own - value).abs() <= 2.0 * bench.unit() * own.abs() + of_sums;
    let are = |points: &[Point], g: &dyn Fn(f64) -> f64| points.iter().all(|[x, own, _]| is_near(*own, g(*x)));
    if let Some((name, g)) = KNOWN.iter().find(|(_, g)| argument != bench.site && are(&points, g)) {
        return Ok(vec![Solution::new(vec![format!("each value is {name}")], x.mapv(g))]);
    }
    if let Some(solution) = of_rows(bench, &x, argument, &is_near) {
        return Ok(vec![solution]);
    }
    // A cap far above all values is none.
    let is_right = points.iter().all(|[_, own, right]| is_near(*own, *right));
    let is_itself = argument == bench.site && !is_right;
    if let Some(factor) = factor(&points).filter(|factor| is_itself && are(&points, &|x| factor * x)) {
        let said = format!("each value is {factor:.4} times {name}, as at a temperature of {:.4}", factor.recip());
        return Ok(vec![Solution::new(vec![said], x.mapv(|x| factor * x))]);
    }
    if let Some(cap) = cap(&points).filter(|cap| !is_right && are(&points, &|x| cap * (x / cap).tanh())) {
        let said = format!("each value is capped softly, c·tanh(z/c) with c = {cap:.4}");
        return Ok(vec![Solution::new(vec![said], x.mapv(|x| cap * (x / cap).tanh()))]);
    }
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    Ok(told(&points, name, bench.unit()).map(Solution::without_values).into_iter().collect())
}

/// Some rows alone that have another function, as those of a tile that is not full.
fn of_rows(
    bench: &Bench<'_, '_>,
    x: &Array2<f64>,
    argument: Site,
    is_near: &impl Fn(f64, f64) -> bool,
) -> Option<Solution> {
    let off: Vec<usize> = (0..x.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    let is_some = !off.is_empty() && off.len() < x.nrows() && argument != bench.site;
    let are = |g: &dyn Fn(f64) -> f64| {
        let is = |row: &usize| x.row(*row).iter().zip(bench.candidate.row(*row)).all(|(x, own)| is_near(*own, g(*x)));
        off.iter().all(is)
    };
    let (name, g) = KNOWN.iter().find(|(_, g)| is_some && are(g))?;
    let mut values = bench.ideal.clone();
    for row in &off {
        values.row_mut(*row).assign(&x.row(*row).mapv(g));
    }
    let rows = listed::rows(bench, &off);
    Some(Solution::new(vec![format!("in {} each value is {name}", rows.trim_end_matches(','))], values))
}

/// What an element is a function of, and the function's name.
fn argument(site: Site) -> Option<(Site, &'static str)> {
    match site {
        Site::Layer(layer, LayerSite::GateScores) => {
            Some((Site::Layer(layer, LayerSite::GateLogits), "the router's sigmoid"))
        }
        Site::LmHead | Site::Logits => Some((site, "the logit")),
        Site::Vision(pass, VisionSite::Activation) => Some((Site::Vision(pass, VisionSite::Linear1), "GELU")),
        Site::Vision(pass, VisionSite::MergeActivation) => Some((Site::Vision(pass, VisionSite::MergeLinear1), "GELU")),
        Site::Vision(pass, VisionSite::Layer(layer, VisionLayerSite::Activation)) => {
            Some((Site::Vision(pass, VisionSite::Layer(layer, VisionLayerSite::Fc1)), "GELU"))
        }
        _ => None,
    }
}

/// By what arguments are multiplied, by the largest.
fn factor(points: &[Point]) -> Option<f64> {
    let [x, own, _] = points.iter().max_by(|a, b| a[0].abs().total_cmp(&b[0].abs()))?;
    Some(own / x)
}

/// c of c·tanh(z/c), by the largest value: with y = c·tanh(z/c), c falls to y as y does below z.
fn cap(points: &[Point]) -> Option<f64> {
    let [z, y, _] = points.iter().max_by(|a, b| a[1].abs().total_cmp(&b[1].abs()))?.map(f64::abs);
    if y >= z {
        return None;
    }
    let (mut low, mut high) = (y, 1e6 * z);
    // c·tanh(z/c) grows with c; each step has half the interval of the last.
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle * (z / middle).tanh() < y {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(f64::midpoint(low, high))
}

/// What the errors of values in the order of their arguments say.
pub(super) fn told(points: &[Point], name: &str, unit: f64) -> Option<String> {
    let n = points.len() as f64;
    let errors: Vec<f64> = points.iter().map(|[_, own, right]| own - right).collect();
    if points.len() < LEAST {
        return None;
    }
    let mean = errors.iter().sum::<f64>() / n;
    let squares: f64 = errors.iter().map(|e| (e - mean).powi(2)).sum();
    let steps: f64 = errors.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let [x, own, right] = points.iter().copied().max_by(|a, b| (a[1] - a[2]).abs().total_cmp(&(b[1] - b[2]).abs()))?;
    if steps > FOLLOWS * squares || (own - right).abs() <= LARGE * unit * right.abs() {
        return None;
    }
    let (first, last) = (points.first()?[0], points.last()?[0]);
    Some(format!(
        "each value is another function of its argument than {name}: between {first:.2} and {last:.2} it is furthest off at \
         {x:.4}, where it is {own:.5} for {right:.5}"
    ))
}
