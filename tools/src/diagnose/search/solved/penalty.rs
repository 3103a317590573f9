//! What a sampler makes of logits, by the tokens that came before.
//!
//! ```text
//! z/p where z > 0, else z·p        z − a − b·n        for tokens that came n ≥ 1 times so far; solved for p, or a and b
//! z + a        for some entries of the vocabulary, whatever came before; solved for a
//! ```
//!
//! Or the same of tokens that come n times in all of the prompt, before and behind.

use std::collections::HashMap;

use ndarray::{Array1, Array2, Axis};
use reference::{Site, Storage};

use super::solution::Solution;
use super::{least_squares, listed};
use crate::diagnose::search::Bench;

/// How far logits may be off, in roundings, to be the same: each was rounded on both sides, and what is divided by p or less by a
/// once more; the rest is for p, a and b themselves.
const SAME: f64 = 8.0;

/// Roundings of f32 that the sums of products leave of a row's largest logit, as of functions.
const SUMS: f64 = 64.0;

/// Rows by which a number that is added is told.
const ROWS: usize = 2;

/// A logit of a token that is there already.
struct Seen {
    /// Row and column.
    at: (usize, usize),
    right: f64,
    own: f64,
    times: usize,
    /// What the row's sums leave of it.
    of_sums: f64,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    if !matches!(bench.site, Site::LmHead | Site::Logits) {
        return None;
    }
    let tokens = bench.tokens();
    if tokens.len() != bench.candidate.nrows() {
        return None;
    }
    [false, true].into_iter().find_map(|of_all| of_tokens(bench, &tokens, of_all)).or_else(|| of_entries(bench))
}

/// Of tokens that came before, or that come anywhere.
fn of_tokens(bench: &Bench<'_, '_>, tokens: &[u32], of_all: bool) -> Option<Solution> {
    let same = SAME * bench.unit();
    // What is subtracted leaves the roundings of what it is subtracted from.
    let is = |seen: &Seen, expected: f64| {
        (seen.own - expected).abs() <= same * expected.abs().max(seen.right.abs()) + seen.of_sums
    };
    let mut times: HashMap<usize, usize> = HashMap::new();
    if of_all {
        for token in tokens {
            *times.entry(*token as usize).or_default() += 1;
        }
    }
    let mut seen = Vec::new();
    for (row, token) in tokens.iter().enumerate() {
        if !of_all {
            *times.entry(*token as usize).or_default() += 1;
        }
        let largest = bench.ideal.row(row).fold(0.0, |most: f64, z| most.max(z.abs()));
        let of_sums = SUMS * Storage::F32.unit_roundoff() * largest;
        for (column, (&own, &right)) in bench.candidate.row(row).iter().zip(bench.ideal.row(row)).enumerate() {
            let times = times.get(&column).copied();
            let one = Seen { at: (row, column), right, own, times: times.unwrap_or(0), of_sums };
            match times {
                Some(_) => seen.push(one),
                None if is(&one, right) => {}
                None => return None,
            }
        }
    }
    if seen.iter().all(|one| is(one, one.right)) {
        return None;
    }
    let (said, values) = repetition(&seen, is).or_else(|| presence(&seen, is))?;
    let whose = if of_all {
        "logits of all tokens of the prompt, before and behind,"
    } else {
        "logits of tokens that came before"
    };
    let mut all = bench.ideal.clone();
    seen.iter().zip(values).for_each(|(seen, value)| all[seen.at] = value);
    Some(Solution::new(vec![format!("{whose} {said}")], all))
}

/// Entries of the vocabulary whose logits are more or less by a number each, in all rows that are off.
fn of_entries(bench: &Bench<'_, '_>) -> Option<Solution> {
    let apart = &bench.candidate - &bench.ideal;
    let limits = bench.ideal.map_axis(Axis(1), |row| {
        let largest = row.fold(0.0, |most: f64, z| most.max(z.abs()));
        SAME * bench.unit() * largest + SUMS * Storage::F32.unit_roundoff() * largest
    });
    let is_off = |row: usize, column: usize| apart[[row, column]].abs() > limits[row];
    let rows: Vec<usize> =
        (0..apart.nrows()).filter(|row| (0..apart.ncols()).any(|column| is_off(*row, column))).collect();
    let columns: Vec<usize> =
        (0..apart.ncols()).filter(|column| rows.iter().any(|row| is_off(*row, *column))).collect();
    if rows.len() < ROWS || 2 * columns.len() > apart.ncols() {
        return None;
    }
    let mut values = bench.ideal.clone();
    let mut amounts = Vec::with_capacity(columns.len());
    for &column in &columns {
        let amount = rows.iter().map(|row| apart[[*row, column]]).sum::<f64>() / rows.len() as f64;
        if rows.iter().any(|row| (apart[[*row, column]] - amount).abs() > limits[*row]) {
            return None;
        }
        for row in &rows {
            values[[*row, column]] += amount;
        }
        amounts.push(amount);
    }
    let is_one = amounts.iter().all(|amount| (amount - amounts[0]).abs() <= limits[rows[0]]);
    let said = if is_one {
        format!("{:.4} is added to the logits of {}", amounts[0], listed::many("token", &columns))
    } else {
        let each =
            columns.iter().zip(&amounts).map(|(column, amount)| format!("{amount:.4} to that of token {column}"));
        format!("numbers are added to logits: {}", listed::listed(each))
    };
    Some(Solution::new(vec![format!("{said}: a bias of logits")], values))
}

/// What is said, and the logits that follow.
fn repetition(seen: &[Seen], is: impl Fn(&Seen, f64) -> bool) -> Option<(String, Vec<f64>)> {
    let mut factors: Vec<f64> =
        seen.iter().map(|s| if s.right > 0.0 { s.right / s.own } else { s.own / s.right }).collect();
    factors.retain(|factor| factor.is_finite());
    factors.sort_by(f64::total_cmp);
    let p = *factors.get(factors.len() / 2)?;
    let values: Vec<f64> = seen.iter().map(|s| if s.right > 0.0 { s.right / p } else { s.right * p }).collect();
    let holds = seen.iter().zip(&values).all(|(s, value)| is(s, *value));
    let said = format!("are divided by {p:.4} where they are positive, and multiplied else: a repetition penalty");
    holds.then_some((said, values))
}

fn presence(seen: &[Seen], is: impl Fn(&Seen, f64) -> bool) -> Option<(String, Vec<f64>)> {
    let columns = Array2::from_shape_fn((seen.len(), 2), |(i, j)| if j == 0 { 1.0 } else { seen[i].times as f64 });
    let less = seen.iter().map(|s| s.right - s.own).collect::<Array1<f64>>();
    let solution = least_squares::solve(columns.view(), less.view())?;
    let [once, each] = solution.x[..] else { return None };
    let values: Vec<f64> = seen.iter().map(|s| s.right - once - each * s.times as f64).collect();
    let holds = seen.iter().zip(&values).all(|(s, value)| is(s, *value));
    let said = format!("are less by {once:.4}, and by {each:.4} each time: a penalty on presence or frequency");
    holds.then_some((said, values))
}
