//! What a sampler makes of logits, by the tokens that came before.
//!
//! ```text
//! z/p where z > 0, else z·p        z − a − b·n        for tokens that came n ≥ 1 times so far; solved for p, or a and b
//! ```

use std::collections::HashMap;

use ndarray::{Array1, Array2};
use reference::{Site, Storage};

use super::least_squares;
use super::solution::Solution;
use crate::diagnose::search::Bench;

/// How far logits may be off, in roundings, to be the same: each was rounded on both sides, and what is divided by p or less by a
/// once more; the rest is for p, a and b themselves.
const SAME: f64 = 8.0;

/// Roundings of f32 that the sums of products leave of a row's largest logit, as of functions.
const SUMS: f64 = 64.0;

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
    let same = SAME * bench.unit();
    // What is subtracted leaves the roundings of what it is subtracted from.
    let is = |seen: &Seen, expected: f64| {
        (seen.own - expected).abs() <= same * expected.abs().max(seen.right.abs()) + seen.of_sums
    };
    let mut times: HashMap<usize, usize> = HashMap::new();
    let mut seen = Vec::new();
    for (row, token) in tokens.iter().enumerate() {
        *times.entry(*token as usize).or_default() += 1;
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
    let mut all = bench.ideal.clone();
    seen.iter().zip(values).for_each(|(seen, value)| all[seen.at] = value);
    Some(Solution::new(vec![said], all))
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
    let said = format!(
        "logits of tokens that came before are divided by {p:.4} where they are positive, and multiplied else: a \
         repetition penalty"
    );
    holds.then_some((said, values))
}

fn presence(seen: &[Seen], is: impl Fn(&Seen, f64) -> bool) -> Option<(String, Vec<f64>)> {
    let columns = Array2::from_shape_fn((seen.len(), 2), |(i, j)| if j == 0 { 1.0 } else { seen[i].times as f64 });
    let less = seen.iter().map(|s| s.right - s.own).collect::<Array1<f64>>();
    let solution = least_squares::solve(columns.view(), less.view())?;
    let [once, each] = solution.x[..] else { return None };
    let values: Vec<f64> = seen.iter().map(|s| s.right - once - each * s.times as f64).collect();
    let holds = seen.iter().zip(&values).all(|(s, value)| is(s, *value));
    let said = format!(
        "logits of tokens that came before are less by {once:.4}, and by {each:.4} each time: a penalty on presence or \
         frequency"
    );
    holds.then_some((said, values))
}
