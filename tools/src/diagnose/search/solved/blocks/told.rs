//! What tokens have in common in the blocks that they saw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::seen::Differs;
use crate::diagnose::search::solved::listed;

/// Things said at most.
const STATEMENTS: usize = 3;

/// Tokens for each that has something in common with others, at most, where that is told.
const SHARE: usize = 3;

/// Which block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    /// So many before the token's own.
    Before(usize),
    At(usize),
    /// By its place in the choice.
    Slot(usize),
}

/// What several tokens have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    All,
    Previous,
    Next,
    NextChoice,
    Lost(Which),
    More(Which),
}

fn alikes(row: usize, differs: &Differs, size: usize) -> BTreeSet<Alike> {
    let places = |block: usize| [Some(Which::At(block)), (row / size).checked_sub(block).map(Which::Before)];
    match differs {
        Differs::All => BTreeSet::from([Alike::All]),
        Differs::Previous => BTreeSet::from([Alike::Previous]),
        Differs::Next => BTreeSet::from([Alike::Next]),
        Differs::NextChoice => BTreeSet::from([Alike::NextChoice]),
        Differs::Some { lost, more } => {
            let lost = lost.iter().flat_map(|(slot, block)| {
                places(*block).into_iter().flatten().chain([Which::Slot(*slot)]).map(Alike::Lost).collect::<Vec<_>>()
            });
            let more = more.iter().flat_map(|block| places(*block).into_iter().flatten().map(Alike::More));
            lost.chain(more).collect()
        }
    }
}

/// What most of the tokens that were tried have in common, of those that are off, then what most of the others have.
pub(super) fn tell(found: &[(usize, Differs)], tried: usize, off: usize, size: usize) -> Vec<String> {
    let mut left: BTreeMap<usize, BTreeSet<Alike>> =
        found.iter().map(|(row, differs)| (*row, alikes(*row, differs, size))).collect();
    let mut said = Vec::new();
    while said.len() < STATEMENTS {
        let all: BTreeSet<Alike> = left.values().flatten().copied().collect();
        let rows = |alike: Alike| left.iter().filter(move |(_, own)| own.contains(&alike)).map(|(row, _)| *row);
        let most = all.into_iter().map(|alike| (rows(alike).collect::<Vec<_>>(), alike));
        let most = most.reduce(|most, next| if next.0.len() > most.0.len() { next } else { most });
        let Some((rows, alike)) = most.filter(|(rows, _)| SHARE * rows.len() >= tried) else { break };
        said.push(format!("{alike}: {}", listed::tokens(&rows, tried, off)));
        // What is lost and what is there in its place are told once each.
        let is_lost = |of: &Alike| matches!(of, Alike::Lost(_));
        for row in rows {
            left.entry(row).or_default().retain(|other| is_lost(other) != is_lost(&alike));
        }
    }
    said
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Before(0) => write!(f, "the token's own block"),
            Which::Before(by) => write!(f, "the block {by} before the token's own"),
            Which::At(block) => write!(f, "block {block}"),
            Which::Slot(slot) => write!(f, "the choice {} of its blocks", slot + 1),
        }
    }
}

impl fmt::Display for Alike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alike::All => write!(f, "attention sees all blocks, not those that were chosen alone"),
            Alike::Previous => write!(f, "attention sees the blocks that were chosen for the token before"),
            Alike::Next => write!(f, "attention sees the blocks that were chosen for the next token"),
            Alike::NextChoice => write!(f, "each key head sees the blocks that were chosen for the next"),
            Alike::Lost(which) => write!(f, "attention does not see {which}, which was chosen"),
            Alike::More(which) => write!(f, "attention sees {which}, which was not chosen"),
        }
    }
}
