//! What a sampler makes of logits, by the tokens that came before.
//!
//! ```text
//! z/p where z > 0, else z·p        z − a − b·n        for tokens that are there n ≥ 1 times; solved for p, or a and b
//! ```

use std::collections::HashMap;

use ndarray::{Array1, Array2};
use reference::Site;

use super::least_squares::solve;
use crate::diagnose::search::Bench;

/// How far logits may be off, in roundings, to be the same: each was rounded on both sides, and what is divided by p or less by a
/// once more; the rest is for p, a and b themselves.
const SAME: f64 = 8.0;

/// A logit of a token that is there already.
struct Seen {
    right: f64,
    own: f64,
    times: usize,
}

pub(super) fn describe(bench: &Bench<'_, '_>) -> Option<String> {
    if !matches!(bench.site, Site::LmHead | Site::Logits) {
        return None;
    }
    let tokens = bench.tokens();
    if tokens.len() != bench.candidate.nrows() {
        return None;
    }
    let same = SAME * bench.unit();
    let is = |own: f64, right: f64| (own - right).abs() <= same * right.abs();
    let mut times: HashMap<usize, usize> = HashMap::new();
    let mut seen = Vec::new();
    for (row, token) in tokens.iter().enumerate() {
        *times.entry(*token as usize).or_default() += 1;
        for (column, (&own, &right)) in bench.candidate.row(row).iter().zip(bench.ideal.row(row)).enumerate() {
            match times.get(&column) {
                Some(&times) => seen.push(Seen { right, own, times }),
                None if is(own, right) => {}
                None => return None,
            }
        }
    }
    repetition(&seen, is).or_else(|| presence(&seen, is))
}

fn repetition(seen: &[Seen], is: impl Fn(f64, f64) -> bool) -> Option<String> {
    let mut factors: Vec<f64> =
        seen.iter().map(|s| if s.right > 0.0 { s.right / s.own } else { s.own / s.right }).collect();
    factors.retain(|factor| factor.is_finite());
    factors.sort_by(f64::total_cmp);
    let p = *factors.get(factors.len() / 2)?;
    let holds = seen.iter().all(|s| is(s.own, if s.right > 0.0 { s.right / p } else { s.right * p }));
    holds.then(|| {
        format!(
            "logits of tokens that came before are divided by {p:.4} where they are positive, and multiplied else: a \
             repetition penalty"
        )
    })
}

fn presence(seen: &[Seen], is: impl Fn(f64, f64) -> bool) -> Option<String> {
    let columns = Array2::from_shape_fn((seen.len(), 2), |(i, j)| if j == 0 { 1.0 } else { seen[i].times as f64 });
    let less = seen.iter().map(|s| s.right - s.own).collect::<Array1<f64>>();
    let solution = solve(columns.view(), less.view())?;
    let [once, each] = solution.x[..] else { return None };
    let holds = seen.iter().all(|s| is(s.own, s.right - once - each * s.times as f64));
    holds.then(|| {
        format!(
            "logits of tokens that came before are less by {once:.4}, and by {each:.4} each time: a penalty on presence or \
             frequency"
        )
    })
}
