//! How often each head's output is added, as where a part of a sum over ranks is lost, for some tokens or for all.
//!
//! ```text
//! yᵢ − ŷᵢ = Σₕ (cₕ − 1)·oᵢₕ·Wₕ        of rows i that are off; solved for c, one number for each head h
//! ```
//!
//! with y \[n, H\] the candidate's and ŷ the right values, oᵢₕ \[d\] a head's context, and the rows Wₕ \[d, H\] of the output
//! projection that it is multiplied by. Told where each is a whole number: others are those of what is read, too.

use ndarray::{Array1, Array2, s};

use super::heads::Heads;
use super::ways::is_row;
use crate::diagnose::catalogue::order::ranged;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::least_squares;
use crate::diagnose::search::solved::solution::Solution;

/// Equations for each number, at least.
const EQUATIONS: usize = 4;

/// How far a number may be from a whole one to be that: what bf16 leaves of it, several times.
const WHOLE: f64 = 0.02;

/// Of some rows that are off.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let width = bench.candidate.ncols();
    let are_shown = heads.head_at(0).is_some();
    if are_shown || heads.count < 2 || rows.len() * width < EQUATIONS * heads.count {
        return None;
    }
    let (mut each, mut apart) = (Array2::zeros((rows.len() * width, heads.count)), Vec::new());
    for (i, row) in rows.iter().enumerate() {
        let right = heads.right(*row);
        let mut contexts = Array2::zeros((heads.count, right.len()));
        for head in 0..heads.count {
            let columns = heads.columns(head);
            contexts.slice_mut(s![head, columns.clone()]).assign(&right.slice(s![columns]));
        }
        each.slice_mut(s![i * width..(i + 1) * width, ..]).assign(&heads.changes(&contexts).t());
        apart.extend(&bench.candidate.row(*row) - &bench.ideal.row(*row));
    }
    let found = least_squares::solve(each.view(), Array1::from(apart).view())?;
    let counts: Vec<f64> = found.x.iter().map(|more| (1.0 + more).round() + 0.0).collect();
    let is_whole = found.x.iter().zip(&counts).all(|(more, count)| (1.0 + more - count).abs() <= WHOLE);
    if !is_whole || counts.iter().all(|count| *count == 1.0) {
        return None;
    }
    let mut values = bench.ideal.clone();
    for (i, row) in rows.iter().enumerate() {
        let more: Array1<f64> = counts.iter().map(|count| count - 1.0).collect();
        let own = &bench.ideal.row(*row) + &each.slice(s![i * width..(i + 1) * width, ..]).dot(&more);
        if !is_row(*row, own.view(), bench) {
            return None;
        }
        values.row_mut(*row).assign(&own);
    }
    let mut kinds: Vec<f64> = counts.iter().copied().filter(|count| *count != 1.0).collect();
    kinds.sort_by(f64::total_cmp);
    kinds.dedup();
    let told = |times: &f64| {
        let which: Vec<usize> = (0..counts.len()).filter(|head| counts[*head] == *times).collect();
        let how =
            if *times == 0.0 { "nothing is added".to_owned() } else { format!("the output is added {times} times") };
        format!("of {} {how}", ranged("head", &which))
    };
    let all: Vec<String> = kinds.iter().map(told).collect();
    let place = if rows.len() == bench.candidate.nrows() { "all tokens".to_owned() } else { ranged("token", rows) };
    Some(Solution::new(vec![format!("{} for {place}", all.join(", "))], values))
}
