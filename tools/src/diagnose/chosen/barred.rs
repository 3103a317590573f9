//! What is never chosen though its score is among the best, or always though it is not.
//!
//! A right choice of every row is held to the candidate's: what is lost must be barred in every row, or what is there in its
//! place must be there in every row. Of a choice by other scores, some is lost here and chosen there.

use std::collections::{BTreeMap, BTreeSet};

use super::{FEWEST, Set, TIES};

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
    let told = |(barred, times): (BTreeSet<usize>, usize), how: &str, is_never: bool| {
        let count = choices.iter().map(|choice| choice.visible).max().unwrap_or_default();
        let seen = |id: usize| choices.iter().filter(|choice| id < choice.visible).count();
        let is_all = |id: &usize| {
            let has = choices.iter().filter(|choice| choice.candidate.contains(id)).count();
            if is_never { true } else { has == seen(*id) }
        };
        if barred.is_empty() || !barred.iter().all(is_all) {
            return None;
        }
        Some(format!("{} {how}: {times} times", named(&barred, what, count)))
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

/// What of the one set of each row never is in the other, where next to all that differs is of that; and how often.
fn of<'a>(
    choices: &'a [Choice<'a>],
    sets: impl Fn(&Choice<'a>) -> (&'a Set, &'a Set),
) -> Option<(BTreeSet<usize>, usize)> {
    let mut counts: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    for choice in choices {
        let (one, other) = sets(choice);
        for id in one.iter().filter(|id| choice.forced != Some(**id)) {
            let [lost, kept] = counts.entry(*id).or_default();
            *(if other.contains(id) { kept } else { lost }) += 1;
        }
    }
    let barred: BTreeSet<usize> =
        counts.iter().filter(|(_, [lost, kept])| *lost > 0 && *kept == 0).map(|(id, _)| *id).collect();
    let lost: usize = counts.values().map(|[lost, _]| lost).sum();
    let of_barred: usize = barred.iter().map(|id| counts[id][0]).sum();
    (of_barred >= FEWEST && TIES * (lost - of_barred) <= lost).then_some((barred, of_barred))
}

/// "block 2 is", "blocks from 16 on are".
fn named(ids: &BTreeSet<usize>, what: &str, count: usize) -> String {
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return String::new() };
    match ids.len() {
        1 => format!("{what} {first} is"),
        all if last - first + 1 == all && last + 2 >= count => format!("{what}s from {first} on are"),
        all if last - first + 1 == all => format!("{what}s {first} to {last} are"),
        _ if ids.iter().all(|id| id % 2 == first % 2) && ids.len() * 4 >= count => {
            format!("{} {what}s are", if first % 2 == 0 { "even" } else { "odd" })
        }
        _ => format!("{what}s {} are", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}
