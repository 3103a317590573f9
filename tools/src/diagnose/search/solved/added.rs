//! What stands beside an operator's output that no sum of the model has, as a residual that every rank adds before the ranks' sum.
//!
//! ```text
//! yᵢⱼ = ŷᵢⱼ + c·pᵢⱼ        solved for p among the sites of as many channels, and for c
//! ```
//!
//! with y \[n, H\] the candidate's and ŷ the right values.

use super::sites;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// How far a factor may be from a whole number to be that, as a share: what bf16 leaves of it, several times.
const WHOLE: f64 = 0.02;

/// Channels, at least: of as few rows as one, a factor has this many equations.
const CHANNELS: usize = 8;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let apart = &bench.candidate - &bench.ideal;
    if apart.ncols() < CHANNELS || bench.site.layer().is_none() {
        return Ok(None);
    }
    for site in sites::alike(bench, bench.site) {
        let Some(beside) = bench.in_all_steps(site)?.filter(|beside| beside.dim() == apart.dim()) else { continue };
        let (along, size): (f64, f64) = ((&beside * &apart).sum(), (&beside * &beside).sum());
        let times = along / size;
        let whole = times.round();
        let times = if whole != 0.0 && (times - whole).abs() < WHOLE { whole } else { times };
        let values = &bench.ideal + &(&beside * times);
        let is = |row: usize| {
            let (own, left) = (bench.candidate.row(row), &bench.candidate.row(row) - &values.row(row));
            left.dot(&left).sqrt() <= bench.rounding() * own.dot(&own).sqrt()
        };
        if times.is_finite() && (0..apart.nrows()).all(is) {
            let said = format!("beside the right values, {site} is added {times:.4} times");
            return Ok(Some(Solution::new(vec![said], values)));
        }
    }
    Ok(None)
}
