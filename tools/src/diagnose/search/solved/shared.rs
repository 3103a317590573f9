//! How much a token's routed experts and its shared expert count.
//!
//! ```text
//! yᵢ = aᵢ·rᵢ + bᵢ·sᵢ        solved for a and b of each token; right are a = the routed factor and b = 1
//! ```
//!
//! with y \[n, H\] the network's output, r \[n, H\] the routed experts' sum and s \[n, H\] the shared expert's output.

use ndarray::{Array1, Array2};
use reference::{LayerSite, RoundingContract, Site};

use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Tokens, at least.
const FEWEST: usize = 4;

/// Channels for each number of a token, at least.
const EQUATIONS: usize = 4;

/// How far a number is from another that is told apart, in what roundings leave of a row.
const CERTAIN: f64 = 16.0;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Layer(layer, LayerSite::Mlp) = bench.site else { return Ok(Vec::new()) };
    let parts = [LayerSite::Experts, LayerSite::Shared].map(|site| Site::Layer(layer, site));
    let beside = bench.rerun(&[], RoundingContract::IDEAL, &parts)?.beside;
    let (Some(routed), Some(shared)) = (beside.get(&parts[0]), beside.get(&parts[1])) else { return Ok(Vec::new()) };
    let (y, right) = (&bench.candidate, [bench.config().routed_scaling_factor, 1.0]);
    if y.dim() != routed.dim() || y.dim() != shared.dim() || y.nrows() < FEWEST || y.ncols() < 2 * EQUATIONS {
        return Ok(Vec::new());
    }
    let Some(numbers) = numbers(bench, [routed, shared]) else { return Ok(Vec::new()) };
    let told = [("the routed experts' sum", 0), ("the shared expert's output", 1)].map(|(what, part)| {
        let of: Vec<f64> = numbers.iter().map(|own| own[part]).collect();
        let (least, most) = of.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
        let same = CERTAIN * bench.rounding();
        let is_right = [least, most].iter().all(|x| (x - right[part]).abs() <= same * right[part]);
        let range = if most - least <= same * most.abs() {
            format!("{most:.4}")
        } else {
            format!("{least:.4} to {most:.4}, by token")
        };
        (!is_right).then(|| format!("{what} is multiplied by {range}"))
    });
    let said: Vec<String> = told.into_iter().flatten().collect();
    let mut values = Array2::zeros(y.dim());
    for (i, [a, b]) in numbers.into_iter().enumerate() {
        values.row_mut(i).assign(&(a * &routed.row(i) + b * &shared.row(i)));
    }
    Ok((!said.is_empty()).then(|| Solution::new(said, values)).into_iter().collect())
}

/// a and b of each token, by least squares; `None` where they leave more than roundings of any.
fn numbers(bench: &Bench<'_, '_>, [routed, shared]: [&Array2<f64>; 2]) -> Option<Vec<[f64; 2]>> {
    let of = |row: usize| {
        let (y, r, s) = (bench.candidate.row(row), routed.row(row), shared.row(row));
        let (rr, rs, ss, ry, sy) = (r.dot(&r), r.dot(&s), s.dot(&s), r.dot(&y), s.dot(&y));
        let determinant = rr * ss - rs * rs;
        let [a, b] = [(ry * ss - sy * rs) / determinant, (sy * rr - ry * rs) / determinant];
        let apart: Array1<f64> = &y - &(a * &r) - &(b * &s);
        let size = y.dot(&y).max(a * a * rr).max(b * b * ss).sqrt();
        (apart.dot(&apart).sqrt() <= bench.rounding() * size).then_some([a, b])
    };
    (0..bench.candidate.nrows()).map(of).collect()
}
