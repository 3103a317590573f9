//! What tokens have in common in the experts that they used.

use std::collections::{BTreeSet, HashMap};

use ndarray::{Array1, Array2};

use super::choices;
use super::row::Row;
use crate::diagnose::search::solved::listed::listed;
use crate::diagnose::search::solved::rule::{self, Entry};

/// How far a weight may be from another's, as a share, to be the same: experts' weights of one token differ by more.
const SAME: f64 = 0.05;

/// Experts of a token whose subsets are gone through.
const MOST_CHOICES: usize = 12;

/// The share of draws in which tokens chosen at random all were sent to one and the same expert, below which that is no chance.
const CHANCE: f64 = 1e-3;

/// Sentences on rows whose weights were solved for.
pub(super) fn of_solved(solved: &[Row], chosen: &Array2<usize>) -> Vec<String> {
    let known = |token: &usize| solved.iter().any(|row| row.token == *token);
    let all = entries(chosen);
    let of = |entry: &Entry| solved.iter().find(|row| row.token == entry.token).expect("a token that is known");
    // What counts for next to nothing tells nothing.
    let counts = |entry: &&Entry| known(&entry.token) && of(entry).right[entry.expert] > of(entry).none;
    let of_known: Vec<Entry> = all.iter().filter(counts).copied().collect();
    let is_lost = |entry: &&Entry| of(entry).used[entry.expert].abs() <= of(entry).none;
    let lost: Vec<Entry> = of_known.iter().filter(is_lost).copied().collect();
    let mut said = Vec::new();
    if let Some(shifted) = told_shifted(solved, &of_known) {
        said.push(shifted);
        return said;
    }
    if let Some(exchanged) = told_exchanged(solved) {
        return vec![exchanged];
    }
    let is_replaced = !lost.is_empty() && replaced(&lost, &of).is_some();
    if let Some(others) = choices::told_others(solved).filter(|_| !is_replaced) {
        return vec![others];
    }
    if lost.is_empty() {
        said.extend(told_more(solved));
    } else {
        said.push(told_twice(&lost, &of_known, &of).unwrap_or_else(|| told_lost(&lost, &of_known, &of)));
    }
    // What an expert computes in others' places has these places' weights, too.
    let places = replaced(&lost, &of).unwrap_or_default();
    let is_other = |entry: &&Entry| {
        let row = of(entry);
        let (right, used) = (row.right[entry.expert], row.used[entry.expert]);
        let others = lost.iter().zip(&places).filter(|(own, e)| own.token == entry.token && **e == entry.expert);
        let right = others.fold(right, |sum, (own, _)| sum + row.right[own.expert]);
        let limit = if right == row.right[entry.expert] { row.none } else { SAME * right.abs() + row.none };
        (used - right).abs() > limit && used.abs() > row.none
    };
    let other: Vec<Entry> = of_known.iter().filter(is_other).copied().collect();
    if !other.is_empty() {
        let times = |entry: &Entry| of(entry).used[entry.expert] / of(entry).right[entry.expert];
        said.push(told_times(&other, &of_known, times));
    }
    said
}

/// Where some of the tokens' experts, two or more, are computed by those so many further, and nothing else differs: for any one
/// expert there is a shift.
fn told_shifted(solved: &[Row], all: &[Entry]) -> Option<String> {
    let experts = solved.first()?.right.len();
    let shifts = [1, experts - 1].into_iter().chain(2..experts - 1);
    let found = shifts.filter_map(|shift| Some((shift, shifted(solved, all, shift)?)));
    let is_several = |affected: &[Entry]| affected.iter().any(|entry| entry.expert != affected[0].expert);
    let (shift, affected) = found.filter(|(_, affected)| is_several(affected)).min_by_key(|(_, of)| of.len())?;
    let what = match shift {
        1 => "the next expert computes in an expert's place".to_owned(),
        _ if shift + 1 == experts => "the expert before it computes in an expert's place".to_owned(),
        _ => format!("expert (e + {shift}) mod {experts} computes in place of expert e"),
    };
    Some(format!("{what}: {}", told_where(&affected, all)))
}

/// The choices that have to be another expert's for the weights to be those that were used.
fn shifted(solved: &[Row], all: &[Entry], shift: usize) -> Option<Vec<Entry>> {
    let mut affected = Vec::new();
    for row in solved {
        let own: Vec<Entry> = all.iter().filter(|entry| entry.token == row.token).copied().collect();
        let experts = row.right.len();
        if own.len() > MOST_CHOICES {
            return None;
        }
        let of_subset = |subset: u32| (0..own.len()).filter(move |i| subset >> i & 1 == 1);
        let is = |subset: &u32| {
            let mut weights = row.right.clone();
            for entry in of_subset(*subset).map(|i| own[i]) {
                weights[entry.expert] -= row.right[entry.expert];
                weights[(entry.expert + shift) % experts] += row.right[entry.expert];
            }
            weights.iter().zip(&row.used).all(|(w, used)| (w - used).abs() <= SAME * w.abs() + row.none)
        };
        let subset = (0..1_u32 << own.len()).find(is)?;
        affected.extend(of_subset(subset).map(|i| own[i]));
    }
    Some(affected)
}

/// What became of the outputs that a sum lacks: another expert's in their place, or nothing.
fn told_lost<'r>(lost: &[Entry], all: &[Entry], of: &impl Fn(&Entry) -> &'r Row) -> String {
    let what = match &replaced(lost, of) {
        Some(places) => {
            let told = lost.iter().zip(places);
            let told = told.map(|(entry, e)| format!("{e} for {} at token {}", entry.expert, entry.token));
            format!("another expert computes in an expert's place, {}", listed(told))
        }
        None => "what an expert says is left out of the sum".to_owned(),
    };
    format!("{what}: {}", told_where(lost, all))
}

/// Where of each token that lacks one the expert of one of its choices computes in the place of that of another, too.
fn told_twice<'r>(lost: &[Entry], all: &[Entry], of: &impl Fn(&Entry) -> &'r Row) -> Option<String> {
    let places = replaced(lost, of)?;
    let slot = |entry: &Entry, expert: usize| {
        let own = all.iter().find(|own| own.token == entry.token && own.expert == expert);
        own.map(|own| (entry.slot, own.slot))
    };
    let slots: BTreeSet<_> = lost.iter().zip(&places).map(|(entry, e)| slot(entry, *e)).collect::<Option<_>>()?;
    let tokens = all.iter().map(|entry| entry.token).collect::<BTreeSet<_>>().len();
    let of = format!("with its own weight: of {} of {tokens} tokens", lost.len());
    let each = lost.iter().zip(&places).map(|(entry, e)| format!("{e} for {} at token {}", entry.expert, entry.token));
    (lost.len() > 1).then(|| match slots.into_iter().collect::<Vec<_>>()[..] {
        [(place, by)] => {
            format!("a token's choice {} is computed by the expert of its choice {}, {of}", place + 1, by + 1)
        }
        _ => format!("one of a token's choices is computed by the expert of another of them, {of}, {}", listed(each)),
    })
}

/// The experts whose outputs stand in the place of those that a sum lacks, if there is one for each.
fn replaced<'r>(lost: &[Entry], of: &impl Fn(&Entry) -> &'r Row) -> Option<Vec<usize>> {
    let instead = |entry: &Entry| {
        let row = of(entry);
        let wanted = row.right[entry.expert];
        let more = |e: usize| row.used[e] - row.right[e];
        let is = |e: &usize| more(*e) > row.none && (more(*e) - wanted).abs() <= SAME * wanted.abs() + row.none;
        (0..row.right.len()).find(is)
    };
    lost.iter().map(instead).collect()
}

/// Where each token's weights are those of its experts in another order.
fn told_exchanged(solved: &[Row]) -> Option<String> {
    let sorted = |weights: &Array1<f64>| {
        let mut sorted = weights.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let is = |row: &Row, a: f64, b: f64| (a - b).abs() <= SAME * a.abs() + row.none;
    let of_same = |row: &Row| sorted(&row.right).iter().zip(sorted(&row.used)).all(|(a, b)| is(row, *a, b));
    let chosen =
        |row: &Row| row.right.iter().zip(&row.used).all(|(right, used)| *right != 0.0 || used.abs() <= row.none);
    let off: Vec<&Row> =
        solved.iter().filter(|row| row.right.iter().zip(&row.used).any(|(a, b)| !is(row, *a, *b))).collect();
    let first = off.first()?;
    (off.len() > 1 && off.iter().all(|row| of_same(row) && chosen(row))).then(|| {
        format!(
            "a token's experts have each other's weights: in {} tokens, the first of them token {}",
            off.len(),
            first.token
        )
    })
}

/// Experts in a sum that the router did not choose.
fn told_more(solved: &[Row]) -> Option<String> {
    let of = |row: &Row| {
        let more = row.used.indexed_iter().filter(|(e, used)| row.right[*e] == 0.0 && used.abs() > row.none);
        more.map(|(expert, used)| format!("{expert} at token {} (weight {used:.3})", row.token)).collect::<Vec<_>>()
    };
    let more: Vec<String> = solved.iter().flat_map(of).collect();
    (!more.is_empty()).then(|| format!("experts are in the sum that were not chosen: expert {}", listed(more)))
}

fn told_times(other: &[Entry], all: &[Entry], times: impl Fn(&Entry) -> f64) -> String {
    let factors: Vec<f64> = other.iter().map(&times).collect();
    let (least, most) = factors.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), f| (a.min(*f), b.max(*f)));
    let range = if most - least < SAME * most.abs() {
        format!("{:.3}", f64::midpoint(least, most))
    } else {
        format!("{least:.3} to {most:.3}")
    };
    format!("an expert's weight is {range} times the right one: {}", told_where(other, all))
}

/// Which of all they are: a rule that they alone follow, or the first of them.
fn told_where(affected: &[Entry], all: &[Entry]) -> String {
    let rule = rule::common(all, affected);
    rule.unwrap_or_else(|| {
        let each = affected.iter().map(|entry| format!("{} at token {}", entry.expert, entry.token));
        format!("{} of {}, expert {}", affected.len(), all.len(), listed(each))
    })
}

/// Tokens whose difference no expert's output explains, where each was sent to one that is alone concerned.
pub(super) fn of_unsolved(unsolved: &BTreeSet<usize>, chosen: &Array2<usize>) -> Option<String> {
    let all = entries(chosen);
    let of = |token: &usize| all.iter().filter(|entry| entry.token == *token).map(|e| e.expert).collect();
    let sets: Vec<BTreeSet<usize>> = unsolved.iter().map(of).collect();
    let (first, others) = sets.split_first()?;
    let common = others.iter().fold(first.clone(), |common, set| &common & set);
    if others.is_empty() || common.len() != 1 {
        return None;
    }
    let affected: Vec<Entry> =
        all.iter().filter(|e| unsolved.contains(&e.token) && common.contains(&e.expert)).copied().collect();
    let expert = affected[0].expert;
    let of_expert: Vec<Entry> = all.iter().filter(|entry| entry.expert == expert).copied().collect();
    // Of as many tokens as are off, drawn at random, all are among those of one expert or another.
    let share = of_expert.len() as f64 / chosen.nrows() as f64;
    let experts = all.iter().map(|entry| entry.expert).collect::<BTreeSet<_>>().len();
    if experts as f64 * share.powf(affected.len() as f64) > CHANCE {
        return None;
    }
    let rule = rule::common(&of_expert, &affected).unwrap_or_else(|| format!("{} tokens", affected.len()));
    Some(format!("what is off is no expert's output; it is there where expert {expert} was chosen: {rule}"))
}

/// Each choice of each token.
fn entries(chosen: &Array2<usize>) -> Vec<Entry> {
    let mut passed: HashMap<usize, usize> = HashMap::new();
    let mut counts: HashMap<usize, usize> = HashMap::new();
    chosen.iter().for_each(|expert| *counts.entry(*expert).or_default() += 1);
    let each = chosen.indexed_iter().map(|((token, slot), &expert)| {
        let seen = passed.entry(expert).or_default();
        let rank = *seen;
        *seen += 1;
        let is_paired = chosen.row(token).iter().any(|other| *other == expert ^ 1);
        Entry { token, slot, expert, rank, count: counts[&expert], is_paired }
    });
    each.collect()
}
