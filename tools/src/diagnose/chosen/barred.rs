//! What is never chosen though its score is among the best, or always though it is not.
//!
//! A right choice of every row is held to the candidate's: what is lost must be barred in every row, or what is there in its
//! place must be there in every row. Of a choice by other scores, some is lost here and chosen there.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::{Array2, ArrayView1};
use reference::site::NONE;

/// Rows that are off, at least, for a rule to be told by them.
pub(super) const FEWEST: usize = 8;

/// One row in so many may be against a rule: ties, which rounding decides.
pub(super) const TIES: usize = 20;

/// What a row has chosen.
pub(super) type Set = BTreeSet<usize>;

/// What each row has chosen, without its empty slots.
pub(super) fn sets(choices: &Array2<usize>) -> Vec<Set> {
    let set = |row: ArrayView1<'_, usize>| row.into_iter().copied().filter(|choice| *choice != NONE).collect();
    choices.rows().into_iter().map(set).collect()
}

/// A row's choice as it is right and as the candidate has it, and what it may choose.
pub(super) struct Choice<'a> {
    pub(super) own: &'a Set,
    pub(super) candidate: &'a Set,
    /// What is forced, and tells nothing.
    pub(super) forced: Option<usize>,
    /// How many there are to choose from.
    pub(super) visible: usize,
}

/// What is said of blocks or experts, if most of what is off follows.
pub(super) fn told(choices: &[Choice<'_>], what: &str) -> Option<String> {
    let never = of(choices, |choice| (choice.own, choice.candidate));
    let always = of(choices, |choice| (choice.candidate, choice.own));
    let told = |Barred { ids, times, known }: Barred, how: &str, is_never: bool| {
        let seen = |id: usize| choices.iter().filter(|choice| id < choice.visible).count();
        let is_all = |id: &usize| {
            let has = choices.iter().filter(|choice| choice.candidate.contains(id)).count();
            is_never || has == seen(*id)
        };
        let is_told = !ids.is_empty() && ids.iter().all(is_all);
        is_told.then(|| format!("{} {how}: {times} times", named(&ids, what, &known)))
    };
    let own = if choices.iter().any(|choice| choice.forced.is_some()) { ", but as a token's own" } else { "" };
    let never = never.and_then(|found| {
        told(found, &format!("never chosen{own}, whatever the score: missing where it is among the best"), true)
    });
    never.or_else(|| {
        always.and_then(|found| {
            told(found, "always chosen, whatever the score: there where it is not among the best", false)
        })
    })
}

/// What is barred, how often, and all that there is to tell it by.
struct Barred {
    ids: BTreeSet<usize>,
    times: usize,
    known: BTreeSet<usize>,
}

/// What of the one set of each row never is in the other, where next to all that differs is of that; and how often.
fn of<'a>(choices: &'a [Choice<'a>], sets: impl Fn(&Choice<'a>) -> (&'a Set, &'a Set)) -> Option<Barred> {
    let mut counts: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    for choice in choices {
        let (one, other) = sets(choice);
        for id in one.iter().filter(|id| choice.forced != Some(**id)) {
            let [lost, kept] = counts.entry(*id).or_default();
            *(if other.contains(id) { kept } else { lost }) += 1;
        }
    }
    let barred = counts.iter().filter(|(_, [lost, kept])| *lost > 0 && *kept == 0);
    let ids: BTreeSet<usize> = barred.map(|(id, _)| *id).collect();
    let lost: usize = counts.values().map(|[lost, _]| lost).sum();
    let times: usize = ids.iter().map(|id| counts[id][0]).sum();
    let is_all = times >= FEWEST && TIES * (lost - times) <= lost;
    is_all.then(|| Barred { ids, times, known: counts.into_keys().collect() })
}

/// "block 2 is", "blocks from 16 on are", of those that are known.
fn named(ids: &BTreeSet<usize>, what: &str, known: &BTreeSet<usize>) -> String {
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return String::new() };
    let of = |from: usize, to: usize, each: usize| {
        known.range(from..=to).filter(|id| (*id - from).is_multiple_of(each)).count()
    };
    let end = known.last().copied().unwrap_or(*last);
    match ids.len() {
        1 => format!("{what} {first} is"),
        all if all == of(*first, end, 1) => format!("{what}s from {first} on are"),
        all if all == of(*first, *last, 1) => format!("{what}s {first} to {last} are"),
        all if ids.iter().all(|id| id % 2 == first % 2) && all == of(*first, end, 2) => {
            format!("{} {what}s are", if first.is_multiple_of(2) { "even" } else { "odd" })
        }
        _ => format!("{what}s {} are", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
