//! The blocks that one token saw.

use std::collections::BTreeSet;

use ndarray::{Array1, Array2};
use reference::site::NONE;

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::weighing::{Heads, Sums, joined, limit};

/// Blocks in which a token may differ.
const MOVES: usize = 4;

/// What a block more that differs has to leave of the distance, at most: a fifth less, as of keys.
const NEARER: f64 = 0.8;

/// For each choice, the blocks that its heads see.
type Sets = Vec<BTreeSet<usize>>;

/// How the blocks that a token saw differ from those that were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Differs {
    /// All that there are.
    All,
    /// Those that were chosen for the token before it.
    Previous,
    /// Those that were chosen for the next token.
    Next,
    /// For each choice those of the next one.
    NextChoice,
    /// So many of one or another choice.
    Some {
        /// Blocks that it does not see, with their places in the choice.
        lost: Vec<(usize, usize)>,
        /// Blocks that it sees, and were not chosen.
        more: Vec<usize>,
    },
}

/// Attention to chosen blocks.
pub(super) struct Blocks<'a> {
    pub(super) heads: &'a Heads,
    /// All tokens' of one choice, then of the next \[choices·n, K\].
    pub(super) chosen: &'a Array2<usize>,
    pub(super) choices: usize,
    /// Keys of a block.
    pub(super) size: usize,
}

impl Blocks<'_> {
    fn chosen_of(&self, row: usize, choice: usize) -> impl Iterator<Item = usize> {
        let n = self.chosen.nrows() / self.choices;
        self.chosen.row(choice * n + row).into_iter().copied().filter(|block| *block != NONE)
    }

    fn sets(&self, row: usize) -> Sets {
        (0..self.choices).map(|choice| self.chosen_of(row, choice).collect()).collect()
    }

    /// Whether all blocks up to a token's own are chosen for it.
    pub(super) fn are_all(&self, row: usize) -> bool {
        self.sets(row).iter().all(|set| set.len() == row / self.size + 1)
    }

    /// What the site has of a token that sees these blocks.
    fn output(&self, row: usize, sums: &[Sums], sets: &Sets) -> Array1<f64> {
        let of_head = |(head, sums): (usize, &Sums)| {
            let set = &sets[self.heads.group(head) % self.choices];
            let zero = (0.0, Array1::zeros(self.heads.d));
            let (weight, total) = set.iter().fold(zero, |(weight, total), block| {
                let (more, values) = sums.of_block(*block, self.size, row);
                (weight + more, total + values)
            });
            total / weight
        };
        self.heads.output(joined(&sums.iter().enumerate().map(of_head).collect::<Vec<_>>()).view())
    }

    /// How the blocks that a token saw differ, and its values then.
    pub(super) fn of_row(&self, row: usize, bench: &Bench<'_, '_>) -> Option<(Differs, Array1<f64>)> {
        let (sums, limit) = (self.heads.sums(row), limit(row, bench));
        let right = self.sets(row);
        let far = |sets: &Sets| {
            let values = self.output(row, &sums, sets);
            let apart = &values - &bench.candidate.row(row);
            (apart.dot(&apart).sqrt(), values)
        };
        let all: BTreeSet<usize> = (0..=row / self.size).collect();
        let mut rotated = right.clone();
        rotated.rotate_left(1);
        let previous = row.checked_sub(1).map(|before| (Differs::Previous, self.sets(before)));
        let wholes = [(Differs::All, vec![all.clone(); self.choices]), (Differs::NextChoice, rotated)];
        let n = self.chosen.nrows() / self.choices;
        let next = (row + 1 < n).then(|| (Differs::Next, self.sets(row + 1)));
        for (differs, sets) in wholes.into_iter().chain(previous).chain(next) {
            let (off, values) = far(&sets);
            if off <= limit && sets != right {
                return Some((differs, values));
            }
        }
        let mut sets = right.clone();
        let (mut left, mut values) = far(&sets);
        for _ in 0..MOVES {
            if left <= limit {
                break;
            }
            let moves = moved(&sets, &all);
            let each = moves.into_iter().map(|moved| (far(&moved), moved)).filter(|((off, _), _)| off.is_finite());
            let ((off, own), moved) = each.min_by(|a, b| a.0.0.total_cmp(&b.0.0))?;
            if off > NEARER * left {
                return None;
            }
            (left, values, sets) = (off, own, moved);
        }
        (left <= limit && sets != right).then(|| (self.differs(row, &sets), values))
    }

    fn differs(&self, row: usize, sets: &Sets) -> Differs {
        let (mut lost, mut more) = (Vec::new(), Vec::new());
        for (choice, set) in sets.iter().enumerate() {
            let chosen: Vec<usize> = self.chosen_of(row, choice).collect();
            lost.extend(chosen.iter().copied().enumerate().filter(|(_, block)| !set.contains(block)));
            more.extend(set.iter().copied().filter(|block| !chosen.contains(block)));
        }
        Differs::Some { lost, more }
    }
}

/// Sets in which one choice, or every one, has a block less, a block more, or another.
fn moved(sets: &Sets, all: &BTreeSet<usize>) -> Vec<Sets> {
    let changes = all.iter().flat_map(|lost| all.iter().map(move |more| (*lost, *more)));
    let mut found = Vec::new();
    for (lost, more) in changes {
        // The same block twice stands for one more, or one less.
        let change = |set: &BTreeSet<usize>| {
            let mut set = set.clone();
            if lost == more {
                if !set.remove(&lost) {
                    set.insert(more);
                }
            } else if set.remove(&lost) {
                set.insert(more);
            }
            set
        };
        let changed: Sets = sets.iter().map(change).collect();
        for choice in 0..sets.len() {
            let mut one = sets.clone();
            one[choice].clone_from(&changed[choice]);
            found.push(one);
        }
        found.push(changed);
    }
    found.retain(|moved| moved != sets && moved.iter().all(|set| !set.is_empty()));
    found.dedup();
    found
}
