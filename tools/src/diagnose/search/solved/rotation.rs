//! The frequencies that the text model's rotation table has, or what it takes for a turn ([`frequencies`]), or whose angles
//! a position has ([`places`]); or that what is made of right angles is another [`function`].
//!
//! Of a table of two equal halves, as the models' are: its first has all frequencies.

use std::f64::consts::{PI, TAU};

use ndarray::Array2;
use reference::ops::rope::inverse_frequencies;
use reference::site::VisionSite;
use reference::{RoundingContract, Site};

use super::function::{self, Point};
use super::solution::Solution;
use super::tables::Table;
use super::{frequencies, places};
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Positions of a table that tells anything: one whose angles are 0, one for the frequencies, and another to hold them to.
const POSITIONS: usize = 3;

/// How far the right table may be from positions' angles: those are products in f32, off by half a rounding of some ten thousand.
const SAME: f64 = 1e-3;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    if !matches!(bench.site, Site::RopeCos | Site::RopeSin) || bench.candidate.nrows() < POSITIONS {
        return Ok(Vec::new());
    }
    let wanted = [Site::RopeCos, Site::RopeSin];
    let beside = bench.rerun(&[], RoundingContract::IDEAL, &wanted)?.beside;
    let (Some(cos), Some(sin)) = (beside.get(&wanted[0]), beside.get(&wanted[1])) else { return Ok(Vec::new()) };
    let (n, width) = bench.candidate.dim();
    if cos.dim() != (n, width) || sin.dim() != (n, width) {
        return Ok(Vec::new());
    }
    let config = bench.config();
    let right = inverse_frequencies(config.rope_theta, config.rotary_dim, config.rotary_dim);
    let right: Vec<f64> = right.into_iter().map(f64::from).collect();
    let columns = right.len();
    if 2 * columns != width || columns == 0 {
        return Ok(Vec::new());
    }
    let angles = Array2::from_shape_fn((n, columns), |(p, i)| sin[[p, i]].atan2(cos[[p, i]]));
    let right = &right[..];
    let function = if bench.site == Site::RopeCos { f64::cos } else { f64::sin };
    let is_right =
        |((p, j), own): ((usize, usize), &f64)| (own - function(p as f64 * right[j % columns])).abs() <= SAME;
    // Rows are positions from 0 on, unless passes go back behind drafts; and no table is scaled.
    if !bench.ideal.indexed_iter().all(is_right) {
        return Ok(Vec::new());
    }
    let positions: Vec<usize> = (0..n).collect();
    let found = frequencies::told(&angles, right).or_else(|| places::told(&angles, &positions, right, "positions"));
    let scale = scale(cos, sin);
    let solution = found.map(|(said, angles)| {
        let said = match scale {
            Some(scale) => format!("cosines and sines are {scale:.6} times as large, and {said}"),
            None => said,
        };
        let value = |(p, j): (usize, usize)| scale.unwrap_or(1.0) * function(angles[[p, j % columns]]);
        Solution::new(vec![said], Array2::from_shape_fn((n, width), value))
    });
    let of_tables = of_tables(bench, &Array2::from_shape_fn((n, columns), |(p, i)| p as f64 * right[i]), 1);
    Ok(of_tables.or(solution).or_else(|| of_function(bench, right)).into_iter().collect())
}

/// Another table of these angles, of so many axes.
pub(super) fn of_tables(bench: &Bench<'_, '_>, angles: &Array2<f64>, axes: usize) -> Option<Solution> {
    let at = usize::from(!matches!(bench.site, Site::RopeCos | Site::Vision(_, VisionSite::RopeCos)));
    Table::all(angles.ncols(), axes).into_iter().find_map(|table| {
        let values = table.of(angles)[at].clone();
        let is = |(own, value): (&f64, &f64)| (own - value).abs() <= SAME;
        // A rounded table is one to its last bits.
        let is_right = bench.candidate.iter().zip(&values).all(is) && bench.is_more(&bench.stored(&values));
        is_right.then(|| Solution::new(vec![table.said], values))
    })
}

/// By what cosines and sines are multiplied, all of them, if by anything: √(c² + s²).
fn scale(cos: &Array2<f64>, sin: &Array2<f64>) -> Option<f64> {
    let lengths = || cos.iter().zip(sin).map(|(c, s)| c.hypot(*s));
    let mean = lengths().sum::<f64>() / cos.len() as f64;
    let is_one = |length: f64, of: f64| (length - of).abs() <= SAME * of;
    (!is_one(mean, 1.0) && lengths().all(|length| is_one(length, mean))).then_some(mean)
}

/// Where angles are right, and what is made of them is another function.
fn of_function(bench: &Bench<'_, '_>, right: &[f64]) -> Option<Solution> {
    let name = if bench.site == Site::RopeCos { "the cosine" } else { "the sine" };
    let all = bench.candidate.indexed_iter().zip(&bench.ideal);
    let point = |(((p, j), own), is): (((usize, usize), &f64), &f64)| {
        [(p as f64 * right[j % right.len()] + PI).rem_euclid(TAU) - PI, *own, *is]
    };
    let mut points: Vec<Point> = all.map(point).collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    function::told(&points, name, bench.unit()).map(Solution::without_values)
}
