//! Keys that are seen and must not be, or are not and must be, by probabilities that are 0; or one that is no key of the request.

use std::collections::BTreeSet;

use ndarray::{Array1, Array2};

use super::finite;
use super::rows::{Row, Rows, scores, softmax};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::solved::weighing::{Mask, Run, Way, Weighed, tell, told_of_masks};
use crate::failure::Failure;

/// The largest probability that may be 0 for another reason than a mask.
const NONE: f64 = 1e-12;

/// What is missing of 1 at least, where something else is counted: roundings to bf16 of all that is stored take half of it at most.
const MISSING: f64 = 1.0 / 256.0;

/// Keys that one token misses here and there, at most.
const SCATTERED: usize = 8;

pub(super) fn solve(rows: &Rows, bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let inputs = Rows::inputs(bench)?;
    if let Some(solution) = beside(rows, inputs.as_ref(), bench) {
        return Ok(Some(solution));
    }
    let Some([q, k]) = inputs else { return Ok(None) };
    let of = |row: &Row| seen(*row, bench);
    let is_other = |row: &Row| of(row).iter().enumerate().any(|(key, is)| *is != right(*row, key, bench));
    if rows.off.is_empty() || !rows.off.iter().any(is_other) {
        return Ok(None);
    }
    let Some(values) = rows.held(|row| masked(row, [&q, &k], &of(&row), bench, rows.heads), bench) else {
        return Ok(finite::mask(rows, [&q, &k], bench));
    };
    let tokens: BTreeSet<usize> = rows.off.iter().map(|row| row.token).collect();
    let weighed: Vec<Weighed> = tokens
        .iter()
        .flat_map(|token| {
            let own = rows.off.iter().find(|row| row.token == *token);
            own.into_iter().flat_map(move |row| {
                let span = Run { from: 0, to: token + 1 };
                ways(&of(row), span).into_iter().map(move |way| Weighed { row: *token, call: row.call, span, way })
            })
        })
        .collect();
    let (mut said, _) = tell(&weighed, tokens.len(), tokens.len());
    if said.is_empty() {
        said.extend(one_by_one(rows, &of));
    }
    Ok((!said.is_empty()).then(|| Solution::new(said, values)).filter(|solution| solution.is_more(bench)))
}

/// The masks of tokens that see no key behind them, where all heads share them.
fn one_by_one(rows: &Rows, of: &impl Fn(&Row) -> Vec<bool>) -> Option<String> {
    let mut masks: Vec<Mask> = Vec::new();
    for row in &rows.off {
        let seen = of(row);
        if seen.iter().skip(row.token + 1).any(|is| *is) {
            return None;
        }
        let lost = (0..=row.token).filter(|key| !seen[*key]).collect();
        let mask = Mask { row: row.token, lost };
        match masks.iter().find(|other| other.row == row.token) {
            Some(other) if *other != mask => return None,
            Some(_) => {}
            None => masks.push(mask),
        }
    }
    masks.retain(|mask| !mask.lost.is_empty());
    masks.sort_by_key(|mask| mask.row);
    (!masks.is_empty()).then(|| told_of_masks(&masks, masks.len()))
}

/// Whether a row counts each key.
fn seen(row: Row, bench: &Bench<'_, '_>) -> Vec<bool> {
    let pairs = bench.candidate.row(row.at).into_iter().zip(bench.ideal.row(row.at));
    // What counts for next to nothing may be 0.
    pairs.map(|(own, right)| *own > 0.0 || (*right > 0.0 && *right <= NONE)).collect()
}

fn right(row: Row, key: usize, bench: &Bench<'_, '_>) -> bool {
    bench.ideal[[row.at, key]] > 0.0
}

/// The probabilities of the keys that a row counts.
fn masked(row: Row, inputs: [&Array2<f64>; 2], seen: &[bool], bench: &Bench<'_, '_>, heads: usize) -> Array1<f64> {
    let mut scores = scores(row, inputs, bench, heads);
    scores.iter_mut().zip(seen).filter(|(_, is)| !**is).for_each(|(score, _)| *score = f64::NEG_INFINITY);
    softmax(scores)
}

/// How a token's keys are others than those that it has to see.
fn ways(seen: &[bool], span: Run) -> Vec<Way> {
    let all: Vec<usize> = (0..seen.len()).filter(|key| seen[*key]).collect();
    let run = |keys: &[usize]| {
        let (from, to) = (*keys.first()?, keys.last()? + 1);
        (to - from == keys.len()).then_some(Run { from, to })
    };
    let lost: Vec<usize> = (span.from..span.to).filter(|key| !seen[*key]).collect();
    let more: Vec<usize> = all.iter().copied().filter(|key| *key >= span.to || *key < span.from).collect();
    if lost.is_empty() && more.is_empty() {
        return Vec::new();
    }
    if let Some(run) = run(&all) {
        return vec![Way::Only(run)];
    }
    match (run(&lost), &more[..]) {
        (Some(lost), []) => vec![Way::Without(lost)],
        (_, [one]) if lost.is_empty() => vec![Way::Ahead(*one)],
        (_, []) if lost.len() <= SCATTERED => lost.into_iter().map(|key| Way::Without(Run::one(key))).collect(),
        _ => Vec::new(),
    }
}

/// Rows whose probabilities are the right ones times a number below 1: what is left of 1 is that of something else.
fn beside(rows: &Rows, inputs: Option<&[Array2<f64>; 2]>, bench: &Bench<'_, '_>) -> Option<Solution> {
    let sums: Vec<f64> = rows.off.iter().map(|row| bench.candidate.row(row.at).sum()).collect();
    let limit = 1.0 - MISSING;
    if sums.is_empty() || sums.iter().filter(|sum| **sum < limit).count() * 2 < sums.len() {
        return None;
    }
    let values = rows.held(|row| bench.ideal.row(row.at).to_owned() * bench.candidate.row(row.at).sum(), bench)?;
    let (least, most) = sums.iter().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| (a.min(*x), b.max(*x)));
    let said = format!(
        "probabilities are right beside one another, and sum to {least:.4} to {most:.4}: the softmax counts something that is no \
         key of the request, as a slot of padding or a sink{}",
        inputs
            .and_then(|[q, k]| finite::sinks(rows, [q, k], bench))
            .map(|sinks| format!(": {sinks}"))
            .unwrap_or_default()
    );
    Some(Solution::new(vec![said], values)).filter(|solution| solution.is_more(bench))
}
