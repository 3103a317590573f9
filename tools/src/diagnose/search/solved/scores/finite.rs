//! Numbers that a softmax counts beside what it should: that of a mask which is not −∞, or a sink's score.
//!
//! ```text
//! p′ⱼ ∝ exp(sⱼ + b)        of keys j that must not be seen; solved for b
//! Σⱼ p′ⱼ = Z / (Z + exp b)        with Z = Σⱼ exp sⱼ of the keys that are seen; solved for b of each head
//! ```

use std::collections::BTreeMap;

use ndarray::Array2;

use super::rows::{Row, Rows, scores, softmax};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::listed::{listed, ranges};
use crate::diagnose::search::solved::solution::Solution;

/// How far numbers may be apart that are one: exponentials have the absolute errors of their scores.
const SAME: f64 = 1e-2;

/// The least probability of which a logarithm is taken.
const LEAST: f64 = 1e-30;

/// Where keys that must not be seen count by a number less.
pub(super) fn mask(rows: &Rows, inputs: [&Array2<f64>; 2], bench: &Bench<'_, '_>) -> Option<Solution> {
    let mut each = Vec::new();
    for row in &rows.off {
        let (own, scores) = (bench.candidate.row(row.at), scores(*row, inputs, bench, rows.heads));
        let beyond = (row.token + 1..own.len()).filter(|key| own[*key] > LEAST && own[row.token] > LEAST);
        each.extend(beyond.map(|key| (own[key] / own[row.token]).ln() - (scores[key] - scores[row.token])));
    }
    let more = median(each)?;
    let masked = |row: Row| {
        let mut scores = scores(row, inputs, bench, rows.heads);
        scores.iter_mut().skip(row.token + 1).for_each(|score| *score += more);
        softmax(scores)
    };
    let values = rows.held(masked, bench)?;
    let said = format!(
        "keys that a token must not see are seen, with scores that are {:.4} {}: a mask of a finite number",
        more.abs(),
        if more < 0.0 { "less" } else { "more" }
    );
    Some(Solution::new(vec![said], values)).filter(|solution| solution.is_more(bench))
}

/// "a sink of 1.5000 in head 2", where each head counts one score more.
pub(super) fn sinks(rows: &Rows, inputs: [&Array2<f64>; 2], bench: &Bench<'_, '_>) -> Option<String> {
    let mut of_heads: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for row in &rows.off {
        let scores = scores(*row, inputs, bench, rows.heads);
        let largest = scores.iter().take(row.token + 1).copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().take(row.token + 1).map(|score| (score - largest).exp()).sum();
        let share = bench.candidate.row(row.at).sum();
        let sink = (share.recip() - 1.0).ln() + sum.ln() + largest;
        of_heads.entry(row.head).or_default().extend(Some(sink).filter(|sink| sink.is_finite()));
    }
    let mut sinks = Vec::new();
    for (head, each) in of_heads {
        let sink = median(each.clone())?;
        if each.iter().filter(|own| (*own - sink).abs() > SAME).count() * 2 > each.len() {
            return None;
        }
        sinks.push((head, sink));
    }
    let heads: Vec<usize> = sinks.iter().map(|(head, _)| *head).collect();
    let (_, first) = *sinks.first()?;
    let noun = if heads.len() == 1 { "head" } else { "heads" };
    Some(if sinks.iter().all(|(_, sink)| (sink - first).abs() <= SAME) {
        format!("a sink of {first:.4} in {noun} {}", ranges(&heads))
    } else {
        format!("sinks of {}", listed(sinks.iter().map(|(head, sink)| format!("{sink:.4} in head {head}"))))
    })
}

fn median(mut each: Vec<f64>) -> Option<f64> {
    each.sort_by(f64::total_cmp);
    each.get(each.len() / 2).copied()
}
