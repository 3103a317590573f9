//! Queries and keys, or one of the two, that were rotated by another table than the right one.
//!
//! ```text
//! q ← R′(i)·R(i)⁻¹·q        k ← R′(j)·R(j)⁻¹·k        for each R′ of another table
//! ```

use ndarray::{Array1, Array2};
use rayon::prelude::*;
use reference::Site;
use reference::grid::AXES;
use reference::ops::rope::{Rope, rope};

use super::heads::Heads;
use super::ways::is_row;
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
    let right = Table::right(pairs).of(&angles);
    let back = [right[0].clone(), -&right[1]];
    let [q, k, v] = heads.inputs();
    let unrotated = [q, k].map(|of| turned(of, &back, heads.d));
    let under = |table: &Table, which: [bool; 2]| {
        let by = table.of(&angles);
        let of = |i: usize| {
            if which[i] { turned(&unrotated[i], &by, heads.d) } else { heads.inputs()[i].clone() }
        };
        heads.with([of(0), of(1), v.clone()])
    };
    let output = |heads: &Heads, row: usize| -> Array1<f64> { heads.output(heads.right(row).view()) };
    let is = |heads: &Heads, row: usize| is_row(row, output(heads, row).view(), bench);
    let holds = |(table, (which, _)): &(&Table, &([bool; 2], &str))| {
        let other = under(table, *which);
        some.iter().rev().all(|row| is(&other, *row))
    };
    let (table, (which, whose)) = each.into_par_iter().find_first(holds)?;
    let other = under(table, *which);
    let mut values = bench.ideal.clone();
    for row in rows {
        values.row_mut(*row).assign(&output(&other, *row));
    }
    let said = format!("{whose} rotated by another table than the right one: {}", table.said);
    Some(Solution::new(vec![said], values))
}

/// Heads' values, each row rotated by its own cosines and sines.
fn turned(of: &Array2<f64>, [cos, sin]: &[Array2<f64>; 2], d: usize) -> Array2<f64> {
    let parameters = Rope { head_dim: d, rotary_dim: cos.ncols(), ..Rope::default() };
    rope(&parameters, of.view(), cos.view(), sin.view())
        .expect("a row of the table for each, and no more columns than d")
}
