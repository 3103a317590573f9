//! Rows that have the values of others, as where an index of tokens is off, or a kernel's last block repeats one.
//!
//! ```text
//! yᵢ = ŷⱼ        solved for j of each row i that is off
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values.

use ndarray::ArrayView1;
use reference::Site;

use super::listed::{self, listed};
use super::solution::Solution;
use crate::diagnose::search::Bench;

/// Columns by which rows are told apart before all are compared.
const FIRST: usize = 16;

/// Columns that a row has at least, for it to be told by its values whose it is.
const LEAST: usize = 4;

/// Values by which fewer columns tell it, in all rows together.
const TOGETHER: usize = 16;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    let (y, right) = (&bench.candidate, &bench.ideal);
    let off: Vec<usize> = (0..y.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    let are_rows = bench.site.token_axis(&bench.config()) == Some(0) || matches!(bench.site, Site::Vision(..));
    if off.is_empty() || !are_rows {
        return None;
    }
    let near = |a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>| {
        let apart = &a - &b;
        apart.dot(&apart).sqrt() <= bench.rounding() * a.dot(&a).sqrt()
    };
    let first = y.ncols().min(FIRST);
    let is = |row: usize, other: usize| {
        let own = y.row(row);
        let apart = (0..first).map(|j| (own[j] - right[[other, j]]).powi(2)).sum::<f64>().sqrt();
        apart <= bench.rounding() * own.dot(&own).sqrt() && near(own, right.row(other))
    };
    let others = listed::find_others(&off, y.nrows(), is)?;
    // Of few columns, one distance that all rows have in common tells it.
    let is_one = off.iter().zip(&others).all(|(row, other)| off[0] + other == others[0] + row);
    if y.ncols() < LEAST && !(is_one && off.len() * y.ncols() >= TOGETHER) {
        return None;
    }
    let mut values = right.clone();
    for (row, other) in off.iter().zip(&others) {
        values.row_mut(*row).assign(&right.row(*other));
    }
    let by = |i: usize| others[i].cast_signed() - off[i].cast_signed();
    let said = if off.len() > 1 && (0..off.len()).all(|i| by(i) == by(0)) {
        let side = if by(0) < 0 { "before it" } else { "behind it" };
        format!(
            "{} of {} rows, {}, have the values of the one {} {side}",
            off.len(),
            y.nrows(),
            listed(&off),
            by(0).abs()
        )
    } else {
        format!(
            "rows have the values of others: {}",
            listed(off.iter().zip(&others).map(|(i, j)| format!("{i} those of {j}")))
        )
    };
    let said = if is_of_raster(bench, &off, &others) {
        format!("{said}: patches follow each other row by row of an image, and not by the squares that are merged")
    } else {
        said
    };
    Some(Solution::new(vec![said], values))
}

/// Whether rows of patches have those that stand there where each image's patches follow each other row by row.
fn is_of_raster(bench: &Bench<'_, '_>, off: &[usize], others: &[usize]) -> bool {
    let Site::Vision(pass, _) = bench.site else { return false };
    let Some((vision, pixels)) = bench.vision(pass) else { return false };
    let mut merged = Vec::new();
    for grid in &pixels.grids {
        let first = merged.len();
        // The place of each patch among those that are merged, by its place in the image.
        let mut places: Vec<([usize; 3], usize)> =
            grid.coordinates(vision.spatial_merge_size).enumerate().map(|(i, at)| (at, first + i)).collect();
        places.sort_unstable();
        merged.extend(places.into_iter().map(|(_, place)| place));
    }
    off.iter().zip(others).all(|(row, other)| merged.get(*row) == Some(other))
}
