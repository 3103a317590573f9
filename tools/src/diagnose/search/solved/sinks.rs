//! A score that a softmax counts beside those of keys, a sink, of some heads: what rows say of it, and what is said.

use super::listed::{listed, ranges};

/// How far numbers may be apart that are one: exponentials have the absolute errors of their scores.
pub(super) const SAME: f64 = 1e-2;

/// The one in the middle of what rows say.
pub(super) fn median(mut each: Vec<f64>) -> Option<f64> {
    each.sort_by(f64::total_cmp);
    each.get(each.len() / 2).copied()
}

/// "a sink of 1.5000 in heads 2 and 3", of each head's.
pub(super) fn told(sinks: &[(usize, f64)]) -> Option<String> {
    let heads: Vec<usize> = sinks.iter().map(|(head, _)| *head).collect();
    let (_, first) = *sinks.first()?;
    Some(if sinks.iter().all(|(_, sink)| (sink - first).abs() <= SAME) {
        let noun = if heads.len() == 1 { "head" } else { "heads" };
        format!("a sink of {first:.4} in {noun} {}", ranges(&heads))
    } else {
        format!("sinks of {}", listed(sinks.iter().map(|(head, sink)| format!("{sink:.4} in head {head}"))))
    })
}
