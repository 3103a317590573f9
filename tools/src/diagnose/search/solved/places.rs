//! Positions whose angles are another position's.
//!
//! ```text
//! αᵢₚ = p′·fᵢ        with the right frequencies f; solved for p′
//! ```
//!
//! with α the angles \[pairs, rows\] in radians, each known but for whole turns.

use ndarray::{Array2, ArrayView1};

use super::listed::listed;

/// How far the sine of an angle's error may be from 0: an angle p·f has f32's rounding, so that of f = 1 is within this up to
/// positions of some thousands; where it is not, nothing is said.
const SAME: f64 = 1e-4;

/// Positions beyond those that there are, among which another is looked for.
const BEYOND: usize = 64;

/// What differs in the angles \[rows, pairs\] of rows at these positions, and the angles that follow.
pub(super) fn told(angles: &Array2<f64>, at: &[usize], right: &[f64], what: &str) -> Option<(String, Array2<f64>)> {
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
        format!("others stand there: {}", listed(off.iter().map(|i| format!("{} for {} at {i}", found[*i], at[*i]))))
    };
    let rows = if last + 1 - first == off.len() && off.len() > 1 {
        format!("{what} {first} to {last}")
    } else {
        format!("{} of {} {what}, from {first} on", off.len(), at.len())
    };
    Some((format!("{rows}: {how}"), follow))
}
