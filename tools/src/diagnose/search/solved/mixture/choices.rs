//! Tokens that have other experts than they should: the router's choice is off, which is not shown, or its scores are.

use std::collections::BTreeSet;

use ndarray::{Array2, Axis};
use reference::{LayerSite, RoundingContract, Site};

use super::row::Row;
use crate::diagnose::chosen::scores::Made;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::listed::listed;
use crate::diagnose::search::solved::routing::bias;
use crate::failure::Failure;

/// How far a weight may be from its score's share, as a share: what bf16 leaves of it, several times.
const SAME: f64 = 0.02;

/// Tokens whose experts are others, at least, for a rule to be told by them.
const FEWEST: usize = 4;

/// What is said of tokens whose weights were solved for, if all are so.
pub(super) fn told(bench: &Bench<'_, '_>, layer: usize, solved: &[Row], k: usize) -> Result<Option<String>, Failure> {
    let of = |site| Site::Layer(layer, site);
    let wanted = [LayerSite::GateScores, LayerSite::GateLogits].map(of);
    let rerun = bench.rerun(&[], RoundingContract::IDEAL, &wanted)?;
    let [Some(scores), Some(logits)] = wanted.map(|site| rerun.beside.get(&site)) else { return Ok(None) };
    let is_there = |row: &Row| row.token < scores.nrows() && row.right.len() == scores.ncols();
    if solved.is_empty() || !solved.iter().all(is_there) {
        return Ok(None);
    }
    let used: Vec<BTreeSet<usize>> = solved.iter().map(Row::counting).collect();
    let right: Vec<BTreeSet<usize>> = solved.iter().map(Row::chosen).collect();
    let follows = |(row, used): (&Row, &BTreeSet<usize>)| {
        let sum: f64 = used.iter().map(|e| scores[[row.token, *e]]).sum();
        let is = |e: &usize| {
            let share = scores[[row.token, *e]] / sum;
            (row.used[*e] - share).abs() <= SAME * share + row.none
        };
        used.len() == k && used.iter().all(is)
    };
    let off: Vec<usize> = (0..solved.len()).filter(|i| used[*i] != right[*i]).collect();
    if off.is_empty() || !solved.iter().zip(&used).all(follows) {
        return Ok(None);
    }
    let tokens: Vec<usize> = solved.iter().map(|row| row.token).collect();
    let logits: Array2<f64> = logits.select(Axis(0), &tokens);
    let by = bias(bench, layer).filter(|bias| bias.len() == logits.ncols() && off.len() >= FEWEST);
    let by = by.and_then(|bias| Made { logits: &logits, bias: &bias, chosen: &used }.by());
    let each = off.iter().map(|i| {
        let [more, less] = [&used[*i] - &right[*i], &right[*i] - &used[*i]].map(listed);
        format!("{more} for {less} at token {}", solved[*i].token)
    });
    let rule = by.map(|by| format!("; they are chosen by {by}")).unwrap_or_default();
    Ok(Some(format!(
        "{} of {} tokens have other experts than they should, weighed by their scores: expert {}{rule}",
        off.len(),
        solved.len(),
        listed(each)
    )))
}

/// The same where they are not weighed so, of tokens that have as many experts as they should: scores are others.
pub(super) fn told_others(solved: &[Row]) -> Option<String> {
    let sets = |row: &Row| [row.counting(), row.chosen()];
    let all = solved.iter().map(|row| (row.token, sets(row)));
    let off: Vec<(usize, [BTreeSet<usize>; 2])> = all.filter(|(_, [used, right])| used != right).collect();
    let as_many = off.iter().filter(|(_, [used, right])| used.len() >= right.len() && !right.is_subset(used)).count();
    if off.len() < FEWEST || 4 * as_many < 3 * off.len() {
        return None;
    }
    let each = off.iter().map(|(token, [used, right])| {
        let [more, less] = [used - right, right - used].map(listed);
        format!("{more} for {less} at token {token}")
    });
    Some(format!(
        "{} of {} tokens have other experts than they should, and weights that their scores do not give them: expert {}",
        off.len(),
        solved.len(),
        listed(each)
    ))
}
