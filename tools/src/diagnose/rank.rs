//! The rank of an error: what is added, left out or scaled along few directions shows as few of them.

use ndarray::Array2;
use ndarray_linalg::SVD;

use crate::judge::judging::Kept;

/// The part of an error's energy that its directions must have.
const ENERGY: f64 = 1.0 - 1e-6;

/// Columns told of a direction.
const TOLD: usize = 3;

/// The rank, where it is below half of what the shape allows, and the first direction.
pub(super) fn describe(kept: &Kept) -> Option<String> {
    let error: Array2<f64> = &kept.candidate - &kept.reference;
    if !error.iter().all(|x| x.is_finite()) {
        return None;
    }
    let most = error.nrows().min(error.ncols());
    let (_, values, directions) = error.svd(false, true).ok()?;
    let total: f64 = values.iter().map(|s| s * s).sum();
    let mut sum = 0.0;
    let rank = 1 + values.iter().position(|s| {
        sum += s * s;
        sum >= ENERGY * total
    })?;
    let first = directions?.row(0).to_vec();
    let mut columns: Vec<usize> = (0..first.len()).collect();
    columns.sort_by(|a, b| first[*b].abs().total_cmp(&first[*a].abs()));
    let largest: Vec<String> = columns.iter().take(TOLD).map(ToString::to_string).collect();
    let share = 100.0 * values[0] * values[0] / total;
    (2 * rank < most).then(|| {
        format!(
            "the error has rank {rank} of {most}; {share:.0} % of it lies along one direction, largest at {}",
            largest.join(", ")
        )
    })
}
