//! Positions whose angles are another position's.
//!
//! ```text
//! αᵢₚ = p′·fᵢ        with the right frequencies f; solved for p′
//! ```

use ndarray::{Array2, ArrayView1};

/// How far cosines and sines may be off to be the same: those of a table in f32 are within some of its roundings.
const SAME: f64 = 1e-4;

/// Positions beyond those that there are, among which another is looked for.
const BEYOND: usize = 64;

/// Positions that are told one by one.
const TOLD: usize = 4;

/// What differs in the angles \[rows, pairs\] of rows at these positions, and the angles that follow.
pub(super) fn told((angles, at): (&Array2<f64>, &[usize]), right: &[f64], what: &str) -> Option<(String, Array2<f64>)> {
    let end = at.iter().max()? + BEYOND;
    let is = |row: ArrayView1<'_, f64>, place: usize| {
        row.iter().zip(right).all(|(angle, f)| {
            let apart = angle - place as f64 * f;
            apart.sin().abs() <= SAME && apart.cos() > 0.0
        })
    };
    let found: Option<Vec<usize>> = angles
        .rows()
        .into_iter()
        .zip(at)
        .map(|(row, own)| if is(row, *own) { Some(*own) } else { (0..end).find(|place| is(row, *place)) })
        .collect();
    let found = found?;
    let off: Vec<usize> = (0..at.len()).filter(|i| found[*i] != at[*i]).collect();
    let (first, last) = (*off.first()?, *off.last()?);
    let follow = Array2::from_shape_fn(angles.dim(), |(i, j)| found[i] as f64 * right[j]);
    let is_one = off.iter().all(|i| found[*i] == found[first]);
    let by = found[first].cast_signed() - at[first].cast_signed();
    let is_shifted = off.iter().all(|i| found[*i].cast_signed() - at[*i].cast_signed() == by);
    let how = if is_one && off.len() > 1 {
        format!("all have the angles of {}", found[first])
    } else if is_shifted {
        format!("each has the angles of the one {} {}", by.abs(), if by < 0 { "before it" } else { "behind it" })
    } else {
        let each = off.iter().take(TOLD).map(|i| format!("{} for {} at {i}", found[*i], at[*i]));
        format!("others stand there: {}", each.collect::<Vec<_>>().join(", "))
    };
    let rows = if last + 1 - first == off.len() && off.len() > 1 {
        format!("{what} {first} to {last}")
    } else {
        format!("{} of {} {what}, from {first} on", off.len(), at.len())
    };
    Some((format!("{rows}: {how}"), follow))
}
