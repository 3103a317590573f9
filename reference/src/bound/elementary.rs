//! What the bounds of several operators take of elementary functions.

use ndarray::{Array2, Zip};

use super::ErrorBound;
use crate::{Real, Rounding};

/// A device's exponential, or logarithm, is within so many u.
pub(crate) const EXPONENTIAL: f64 = 4.0;

/// The λ at which the standard deviation is taken of what is not linear in its scores: an eighth of what eight of theirs do.
pub(crate) const CONFIDENT: f64 = 8.0;

/// Where x·σ(x) is steepest, on either side of 0: its second derivative is 0 there.
const SILU_TURNS: f64 = 2.399_357_280_515_467;

/// The derivative of x·σ(x).
pub(crate) fn silu_slope(x: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    sigmoid * (1.0 + x * (1.0 - sigmoid))
}

/// The largest |slope| of x·σ(x) from `low` to `high`.
pub(crate) fn steepest_silu(low: f64, high: f64) -> f64 {
    steepest(silu_slope, SILU_TURNS, low, high)
}

/// The largest |slope| from `low` to `high`: at an end, or where the slope turns, at ±`turning`.
pub(crate) fn steepest(slope: impl Fn(f64) -> f64, turning: f64, low: f64, high: f64) -> f64 {
    let turns = [-turning, turning].into_iter().filter(|t| (low..=high).contains(t));
    turns.chain([low, high]).map(|x| slope(x).abs()).fold(0.0, f64::max)
}

/// ‖x‖.
pub(crate) fn euclidean(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|x| x * x).sum::<f64>().sqrt()
}

/// How far another rotation table, made with other f32 functions, may be from this one: its frequency by 4·u (2 ulp of f32),
/// the angle by 2·u more, the function by 2·u, then `rounding`.
pub(crate) fn rotation_table(
    table: &Array2<f64>,
    angle: impl Fn((usize, usize)) -> f64,
    rounding: Rounding,
) -> ErrorBound {
    let u = f32::UNIT_ROUNDOFF;
    let mut error = ErrorBound::exact(table.dim());
    Zip::indexed(&mut error.certain).for_each(|at, e| *e = 6.0 * u * angle(at) + 2.0 * u);
    error.sigma.clone_from(&error.certain);
    error.rounded(table.view(), rounding.storage)
}
