//! The keys that each token sees, one by one, whatever tokens have in common: a mask that all heads share.
//!
//! ```text
//! Σⱼ mⱼ·p(h,j)·(v(h,j) − o(h)) = 0        of all heads h, solved for m with the token's own 1; right is mⱼ = 1 of all j
//! ```
//!
//! of a token's context o \[heads, d\], the right weights p of its keys and their values v: linear in m, of heads·d equations. A
//! mask is where every m is 0 or 1.

use ndarray::{Array1, Array2, s};

use super::heads::Heads;
use super::softmax::joined;
use super::ways::is_row;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::least_squares;
use crate::diagnose::search::solved::listed::{self, listed};
use crate::diagnose::search::solved::solution::Solution;

/// Tokens for each whose mask is found, at most, where masks are told.
const SHARE: usize = 2;

/// Tokens whose masks are told one by one.
const TOLD: usize = 3;

/// How far a number may be from 0 or 1, and its deviation, to say that a key is seen or not.
const NEAR: f64 = 0.1;

/// A token, and the keys up to its own that it does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::diagnose) struct Mask {
    pub(in crate::diagnose) row: usize,
    pub(in crate::diagnose) lost: Vec<usize>,
}

/// The masks of some rows, where attention's context is shown.
pub(super) fn solve(heads: &Heads, rows: &[usize], off: usize, bench: &Bench<'_, '_>) -> Option<Solution> {
    heads.head_at(0)?;
    let mut values = bench.ideal.clone();
    let mut found = Vec::new();
    for &row in rows {
        let Some((lost, own)) = of_row(heads, row, bench) else { continue };
        values.row_mut(row).assign(&own);
        found.push(Mask { row, lost });
    }
    (SHARE * found.len() >= rows.len() && !found.is_empty()).then(|| Solution::new(vec![told(&found, off)], values))
}

/// The keys that a row does not see, if some are and its values follow from that; a key that counts for nothing is seen.
fn of_row(heads: &Heads, row: usize, bench: &Bench<'_, '_>) -> Option<(Vec<usize>, Array1<f64>)> {
    let (sums, span) = (heads.sums(row), heads.spans[row]);
    if span.to != row + 1 || span.len() < 2 {
        return None;
    }
    let (d, keys) = (heads.d, span.len() - 1);
    let candidate = bench.candidate.row(row);
    let (mut a, mut b) = (Array2::zeros((sums.len() * d, keys)), Array1::zeros(sums.len() * d));
    for (head, sums) in sums.iter().enumerate() {
        let (_, weights) = sums.weighed(span, sums.scores());
        let columns = head * d..(head + 1) * d;
        let o = candidate.slice(s![columns.clone()]);
        for (j, p) in weights.iter().enumerate() {
            let along = (&sums.value(span.from + j) - &o) * *p;
            if j == keys {
                b.slice_mut(s![columns.clone()]).assign(&-along);
            } else {
                a.slice_mut(s![columns.clone(), j]).assign(&along);
            }
        }
    }
    let solution = least_squares::solve(a.view(), b.view())?;
    let mut lost = Vec::new();
    for (j, (m, deviation)) in solution.x.iter().zip(&solution.deviation).enumerate() {
        let is_known = *deviation <= NEAR;
        if is_known && m.abs() > NEAR && (m - 1.0).abs() > NEAR {
            return None;
        }
        if is_known && *m <= NEAR {
            lost.push(span.from + j);
        }
    }
    if lost.is_empty() {
        return None;
    }
    let of = joined(&sums.iter().map(|sums| sums.without(span, &lost, false)).collect::<Vec<_>>());
    let values = heads.output(of.view());
    is_row(row, values.view(), bench).then_some((lost, values))
}

/// What masks have in common, or the first of them; of so many tokens that are off.
pub(in crate::diagnose) fn told(masks: &[Mask], off: usize) -> String {
    let rows: Vec<usize> = masks.iter().map(|mask| mask.row).collect();
    let tokens = listed::tokens(&rows, masks.len(), off);
    let of = |is: &dyn Fn(usize, usize) -> usize| {
        let mut all: Vec<usize> =
            masks.iter().flat_map(|mask| mask.lost.iter().map(|key| is(mask.row, *key))).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let holds = |is: &dyn Fn(usize, usize) -> bool| {
        masks.iter().all(|mask| (0..mask.row).all(|key| is(mask.row, key) == mask.lost.contains(&key)))
    };
    let is_own_seen = masks.iter().all(|mask| !mask.lost.contains(&mask.row));
    let keys = of(&|_, key| key);
    if is_own_seen && holds(&|_, key| keys.contains(&key)) {
        return format!("attention does not see {}, but as a token's own: {tokens}", listed::many("key", &keys));
    }
    let distances = of(&|row, key| row - key);
    if is_own_seen && holds(&|row, key| distances.contains(&(row - key))) {
        return format!("attention does not see the keys that are {} before a token: {tokens}", listed(&distances));
    }
    let first =
        masks.iter().take(TOLD).map(|mask| format!("token {} not {}", mask.row, listed::many("key", &mask.lost)));
    let first = first.collect::<Vec<_>>().join("; ");
    format!("attention has another mask, which all heads share: {first}: {tokens}")
}
