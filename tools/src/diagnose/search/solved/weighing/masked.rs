//! Keys that a token must not see, and sees less than others: where a mask adds a number to their scores that is not −∞.
//!
//! ```text
//! pⱼ ∝ exp(sⱼ + b)        of the keys j that a token must not see, exp sⱼ of the others; solved for b
//! ```

use ndarray::Array1;

use super::heads::Heads;
use super::softmax::Sums;
use super::ways::is_row;
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::{Bench, golden};

/// Tokens by which it is found.
const TOKENS: usize = 8;

/// The numbers among which it is, by ones.
const RANGE: (i32, i32) = (-60, 10);

/// How often the interval around the best is shortened: to 10⁻⁸ of itself.
const SECTIONS: usize = 40;

/// Of some rows that are off.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(TOKENS).max(1)).collect();
    let each: Vec<_> = some.iter().map(|row| (*row, heads.sums(*row))).collect();
    let context = |row: usize, sums: &[Sums], more: f64| -> Array1<f64> {
        heads.context(row, sums, |_, sums| sums.beyond(heads.spans[row], more))
    };
    let off = |more: f64| -> f64 {
        let of = |(row, sums): &(usize, Vec<Sums>)| {
            let apart = heads.output(context(*row, sums, more).view()) - bench.candidate.row(*row);
            bench.counts()[*row] * apart.dot(&apart)
        };
        each.iter().map(of).sum()
    };
    let nearest = (RANGE.0..=RANGE.1).map(f64::from).min_by(|a, b| off(*a).total_cmp(&off(*b)))?;
    let (_, more) = golden::least((nearest - 1.0, nearest + 1.0), SECTIONS, off);
    let mut values = bench.ideal.clone();
    for &row in rows {
        let own = heads.output(context(row, &heads.sums(row), more).view());
        if !is_row(row, own.view(), bench) {
            return None;
        }
        values.row_mut(row).assign(&own);
    }
    Some(Solution::new(vec![told(more)], values))
}

/// What is said of a mask that adds a number.
pub(in crate::diagnose) fn told(more: f64) -> String {
    let which = if more < 0.0 { "less" } else { "more" };
    let by = more.abs();
    format!("keys that a token must not see are seen, with scores that are {by:.4} {which}: a mask of a finite number")
}
