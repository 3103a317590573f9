//! Rows that are multiples of the right ones, each by a factor of its own, as where a token has another's scale.
//!
//! ```text
//! yᵢ = sᵢ·ŷᵢ        solved for s
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values, s \[n\] a factor for each row, by least squares.

use ndarray::{Array1, Axis};

use super::listed::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;

/// How far lengths and factors may be apart to be the same, as a share: what bf16 leaves of a value, twice and a half.
const SAME: f64 = 0.01;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    let (y, right) = (&bench.candidate, &bench.ideal);
    let off: Vec<usize> = (0..y.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    let factors: Array1<f64> = right
        .rows()
        .into_iter()
        .zip(y.rows())
        .map(|(right, own)| if right.dot(&right) > 0.0 { own.dot(&right) / right.dot(&right) } else { 1.0 })
        .collect();
    let values = right * &factors.view().insert_axis(Axis(1));
    let is_own = |row: &usize| {
        let apart = &y.row(*row) - &values.row(*row);
        apart.dot(&apart).sqrt() <= bench.rounding() * y.row(*row).dot(&y.row(*row)).sqrt()
    };
    if y.ncols() < 2 || off.len() < 2 || !off.iter().all(is_own) {
        return None;
    }
    let of_off = off.iter().map(|row| factors[*row]);
    let (least, most) = of_off.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), s| (a.min(s), b.max(s)));
    let lengths: Vec<f64> = off.iter().map(|row| y.row(*row).dot(&y.row(*row)).sqrt()).collect();
    let alike = lengths.iter().all(|length| (length - lengths[0]).abs() <= SAME * lengths[0]);
    let factor = if most - least <= SAME * most.abs() {
        format!("{:.4}", f64::midpoint(least, most))
    } else {
        format!("{least:.4} to {most:.4}")
    };
    let said = if alike && off.len() == y.nrows() && most - least > SAME * most.abs() {
        format!("every row is scaled to a length of {:.4}", lengths[0])
    } else {
        format!("{} of {} rows are multiples of the right ones, {factor} times: {}", off.len(), y.nrows(), listed(&off))
    };
    let rows = (0..y.nrows()).filter(|row| !off.contains(row));
    let mut values = values;
    rows.for_each(|row| values.row_mut(row).assign(&right.row(row)));
    Some(Solution::new(vec![said], values))
}
