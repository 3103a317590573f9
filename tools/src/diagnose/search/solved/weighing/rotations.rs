//! Queries and keys, or one of the two, that were rotated by another table than the right one.
//!
//! ```text
//! q ← R′(i)·R(i)⁻¹·q        k ← R′(j)·R(j)⁻¹·k        for each R′ of another table
//! ```

use ndarray::{Array1, Array2};
use rayon::prelude::*;
use reference::Site;
use reference::grid::AXES;

use super::heads::Heads;
use super::ways::limit;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::solved::tables::{Table, angles};

/// Tokens by which it is found.
const TOKENS: usize = 8;

/// Multiplications that are spent: some seconds of a processor.
const BUDGET: usize = 5_000_000_000;

/// What rotates by it.
const WHICH: [([bool; 2], &str); 3] =
    [([true, true], "queries and keys are"), ([true, false], "queries alone are"), ([false, true], "keys alone are")];

pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let angles = angles(bench)?;
    let pairs = angles.ncols();
    let n = heads.spans.len();
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(TOKENS).max(1)).collect();
    if angles.nrows() != n || 2 * pairs > heads.d || some.is_empty() {
        return None;
    }
    let groups = if matches!(bench.site, Site::Vision(..)) { AXES } else { 1 };
    let all = Table::all(pairs, groups);
    let each = WHICH.iter().flat_map(|which| all.iter().map(move |table| (table, which)));
    let cost = 2 * n * heads.count * heads.d + heads.count * heads.d * bench.candidate.ncols();
    let each: Vec<_> = each.take(BUDGET / cost.max(1)).collect();
    let right = Rotation::right(&angles);
    let under = |table: &Table, [of_queries, of_keys]: [bool; 2]| {
        let rotation = Rotation { table: table.of(&angles) };
        let turned = |of: &Array2<f64>, is: bool| {
            if is { rotation.turned(&right.back(of, heads.d), heads.d) } else { of.clone() }
        };
        let [q, k, v] = heads.inputs();
        heads.with([turned(q, of_queries), turned(k, of_keys), v.clone()])
    };
    let output = |heads: &Heads, row: usize| -> Array1<f64> { heads.output(heads.right(row).view()) };
    let is = |heads: &Heads, row: usize| {
        let apart = output(heads, row) - bench.candidate.row(row);
        apart.dot(&apart).sqrt() <= limit(row, bench)
    };
    let holds = |(table, (which, _)): &(&Table, &([bool; 2], &str))| {
        let turned = under(table, *which);
        some.iter().rev().all(|row| is(&turned, *row))
    };
    let (table, (which, whose)) = each.into_par_iter().find_first(holds)?;
    let turned = under(table, *which);
    let mut values = bench.ideal.clone();
    for row in rows {
        values.row_mut(*row).assign(&output(&turned, *row));
    }
    let said = format!("{whose} rotated by another table than the right one: {}", table.said);
    Some(Solution::new(vec![said], values))
}

/// A rotation of rows, each by its own cosines and sines.
struct Rotation {
    table: [Array2<f64>; 2],
}

impl Rotation {
    fn right(angles: &Array2<f64>) -> Self {
        let dim = (angles.nrows(), 2 * angles.ncols());
        let of =
            |function: fn(f64) -> f64| Array2::from_shape_fn(dim, |(i, j)| function(angles[[i, j % angles.ncols()]]));
        Rotation { table: [of(f64::cos), of(f64::sin)] }
    }

    /// What rotates into values, by a right rotation.
    fn back(&self, of: &Array2<f64>, d: usize) -> Array2<f64> {
        let [cos, sin] = &self.table;
        Rotation { table: [cos.clone(), -sin] }.turned(of, d)
    }

    /// Heads' values, rotated: channel i of the first half with channel i of the second.
    fn turned(&self, of: &Array2<f64>, d: usize) -> Array2<f64> {
        let [cos, sin] = &self.table;
        let half = cos.ncols() / 2;
        let mut turned = of.clone();
        for row in 0..of.nrows() {
            for first in (0..of.ncols()).step_by(d) {
                for i in 0..half {
                    let (a, b) = (of[[row, first + i]], of[[row, first + half + i]]);
                    turned[[row, first + i]] = a * cos[[row, i]] - b * sin[[row, i]];
                    turned[[row, first + half + i]] = b * cos[[row, half + i]] + a * sin[[row, half + i]];
                }
            }
        }
        turned
    }
}
