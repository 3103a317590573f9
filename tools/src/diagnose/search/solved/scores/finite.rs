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
use crate::diagnose::search::solved::sinks::{SAME, median, told};
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::solved::weighing::told_of_mask;

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
    Some(Solution::new(vec![told_of_mask(more)], values)).filter(|solution| solution.is_more(bench))
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
    told(&sinks)
}
