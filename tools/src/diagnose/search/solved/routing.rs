//! How a router's weights follow from its scores.
//!
//! ```text
//! wᵢₛ = c·rᵢₛ / (Σ rᵢₜ + δ)        solved for c and δ; right are c = 1 and δ = 0
//! ```

use ndarray::{Array2, Axis, stack};
use reference::{LayerSite, RoundingContract, Site, Storage};

use super::least_squares::solve;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// How far weights may be off, in roundings of f32, to be the same: a score, a sum of up to eight, a quotient and a product on both
/// sides.
const SAME: f64 = 16.0;

pub(super) fn describe(bench: &Bench<'_, '_>) -> Result<Vec<String>, Failure> {
    let Site::Layer(layer, LayerSite::GateWeights) = bench.site else { return Ok(Vec::new()) };
    let of = Site::Layer(layer, LayerSite::GateScores);
    let rerun = bench.rerun(&[], RoundingContract::IDEAL, &[of])?;
    let (Some(scores), Some(chosen)) = (rerun.beside.get(&of), &rerun.experts) else { return Ok(Vec::new()) };
    if chosen.dim() != bench.candidate.dim() || scores.nrows() != chosen.nrows() {
        return Ok(Vec::new());
    }
    let r = Array2::from_shape_fn(chosen.dim(), |(i, s)| scores[[i, chosen[[i, s]]]]);
    let same = SAME * Storage::F32.unit_roundoff();
    let said = of_sums(&r, &bench.candidate, same).or_else(|| in_place(&r, &bench.candidate, same));
    Ok(said.into_iter().collect())
}

fn are_same(a: &Array2<f64>, b: &Array2<f64>, same: f64) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= same * b.abs())
}

/// One factor for each token, by the sum of its scores.
fn of_sums(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<String> {
    let sums = r.sum_axis(Axis(1));
    let factors = w.sum_axis(Axis(1)) / &sums;
    if !are_same(&(r * &factors.view().insert_axis(Axis(1))), w, same) {
        return None;
    }
    // Σ + δ = c/f, where f is the factor.
    let ones = sums.mapv(|_| 1.0);
    let columns = stack(Axis(1), &[sums.view(), ones.view()]).ok()?;
    let solution = solve(columns.view(), factors.mapv(f64::recip).view()).filter(|solution| solution.left < same)?;
    let [slope, rest] = solution.x[..] else { return None };
    if slope.abs() <= same * rest.abs() {
        return Some(format!("the weights are the scores times {:.5}, whatever their sum", rest.recip()));
    }
    let (c, delta) = (slope.recip(), rest / slope);
    Some(format!("the weights are the scores divided by their sum and {delta:.5} more, times {c:.5}"))
}

/// Each score divided by a sum in which those before it are divided already.
fn in_place(r: &Array2<f64>, w: &Array2<f64>, same: f64) -> Option<String> {
    let mut divided = r.clone();
    for mut row in divided.rows_mut() {
        for slot in 0..row.len() {
            row[slot] /= row.sum();
        }
    }
    let said =
        "each score is divided by a sum in which those before it are divided already: it is summed again and in place";
    are_same(&divided, w, same).then(|| said.to_owned())
}
