//! The keys that each token really saw, and how attention weighed them.
//!
//! ```text
//! o(h,i) = Σⱼ pᵢⱼ·v(g,j)        with other p for one token after the other
//! ```
//!
//! of query head h and its key head g, with values v \[groups, n, d\]; right are the p of a softmax over qᵢ·kⱼ/√d. Of the ways to
//! weigh keys in [`way`], the one under which a token's row is the candidate's ([`ways`]), and what tokens have in common
//! ([`told`]), or the [`mask`] of each; or numbers that bend all weights alike ([`bent`]), or what heads have in the place of
//! their own [`context`], or read in that of their own keys and values ([`reads`]), [`rotations`] by other tables, keys that are
//! [`masked`] in part, what is [`rounded`], one token's [`row`] that is another, or how often a head [`counts`]. What is off in one
//! head alone is looked for there. [`heads`] computes them, of [`softmax`]es;
//! [`parts`] has where their inputs are. Of the text model, and of the vision tower, whose tokens are patches.

mod bent;
mod context;
mod counts;
mod heads;
mod mask;
mod masked;
mod parts;
mod reads;
mod rotations;
mod rounded;
mod row;
mod softmax;
mod told;
mod way;
mod ways;

use reference::Site;
use reference::config::Attention;

pub(super) use self::heads::Heads;
use self::heads::SOME;
pub(super) use self::mask::{Mask, told as told_of_masks};
pub(super) use self::masked::told as told_of_mask;
pub(super) use self::reads::ANGLES;
pub(super) use self::softmax::{Sums, joined};
pub(super) use self::told::{Weighed, tell};
pub(super) use self::way::{Run, Way};
pub(super) use self::ways::{COARSE, LEFT, limit};
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Multiplications that are spent on ways: some seconds of a processor. Where one token costs more, none is tried.
const BUDGET: usize = 20_000_000_000;

/// Ways of a key: without it, with zeros for it, up to it, and the runs that begin with it.
const WAYS: usize = 40;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Some(heads) = Heads::of(bench, Attention::Full)? else { return Ok(Vec::new()) };
    Ok(of_rows(&heads, |_| true, bench))
}

/// What the tokens say that see all keys up to their own, if others do not.
pub(super) fn of_rows(heads: &Heads, sees_all: impl Fn(usize) -> bool, bench: &Bench<'_, '_>) -> Vec<Solution> {
    let n = bench.candidate.nrows();
    let off: Vec<usize> = (0..n).filter(|row| sees_all(*row) && bench.row_is_off(*row)).collect();
    let cost = WAYS * n * heads.count * heads.d * bench.candidate.ncols().min(SOME);
    let tried = some(&off, BUDGET / cost.max(1));
    if let Some(found) = of_ways(heads, &tried, off.len(), bench) {
        return vec![found];
    }
    let of_masks = mask::solve(heads, &tried, off.len(), bench);
    let all = [
        counts::solve,
        context::solve,
        reads::solve,
        rotations::solve,
        masked::solve,
        rounded::solve,
        row::solve,
        bent::solve,
    ];
    let of_others = || all.into_iter().find_map(|solve| solve(heads, &tried, bench));
    let found = of_masks.or_else(of_others).or_else(|| of_one_head(heads, &tried, off.len(), bench));
    found.or_else(|| context::located(heads, &tried, bench)).into_iter().collect()
}

/// How some of the tokens that are off weigh keys, if they have something in common.
fn of_ways(heads: &Heads, tried: &[usize], off: usize, bench: &Bench<'_, '_>) -> Option<Solution> {
    let mut found: Vec<Weighed> = Vec::new();
    let mut values = bench.ideal.clone();
    for &row in tried {
        let Some((ways, own)) = ways::of_row(heads, row, bench) else { continue };
        values.row_mut(row).assign(&own);
        let call = call_of(row, bench);
        found.extend(ways.into_iter().map(|way| Weighed { row, call, span: heads.spans[row], way }));
    }
    let (said, told) = tell(&found, tried.len(), off);
    if said.is_empty() {
        return None;
    }
    let untold = (0..bench.candidate.nrows()).filter(|row| !told.contains(row));
    untold.for_each(|row| values.row_mut(row).assign(&bench.ideal.row(row)));
    Some(Solution::new(said, values))
}

/// The same, or what else is told of all heads, where one alone is off.
fn of_one_head(heads: &Heads, tried: &[usize], off: usize, bench: &Bench<'_, '_>) -> Option<Solution> {
    let head = context::one(heads, tried, bench)?;
    let alone = heads.with_others_right(head);
    let all = [masked::solve, rounded::solve];
    let found =
        of_ways(&alone, tried, off, bench).or_else(|| all.into_iter().find_map(|solve| solve(&alone, tried, bench)));
    found.map(|found| found.before(&format!("in head {head} alone ")))
}

/// The row that a row's call begins with; 0 of what is in no call.
fn call_of(row: usize, bench: &Bench<'_, '_>) -> usize {
    let of_text = matches!(bench.site, Site::Layer(..));
    let begins = bench.calls().into_iter().scan(0, |first, tokens| {
        *first += tokens;
        Some(*first)
    });
    begins.filter(|first| of_text && *first <= row).last().unwrap_or(0)
}

/// So many of them, the first and the last.
fn some(rows: &[usize], most: usize) -> Vec<usize> {
    if rows.len() <= most {
        return rows.to_vec();
    }
    let (first, last) = (most.div_ceil(2), most / 2);
    rows[..first].iter().chain(&rows[rows.len() - last..]).copied().collect()
}
