//! What heads read in the place of their own keys or values: those of a token before or behind, another key head's, or the key
//! heads' in turn.
//!
//! ```text
//! o(h,i) = Σⱼ p(qᵢ·k(g′,j′))·v(g″,j″)        solved for g′ or g″, of some key head g or of all, or for j′ or j″ = j ± 1
//! ```

use ndarray::{Array2, Axis, s};

use super::heads::Heads;
use super::ways::limit;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Tokens by which it is found, and those that it takes: under one of some hundred readings each.
const TOKENS: usize = 12;
const FEWEST: usize = 2;

/// Key heads among which another is looked for: more than the models have.
const GROUPS: usize = 16;

/// Whose keys or values.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// The token's before; of the first its own.
    Before,
    /// The next token's; of the last its own.
    Behind,
    /// Another key head's.
    Group(usize),
    /// Those of the key heads in turn, one query head after the other.
    Turn,
}

/// What is read otherwise: keys, values, or both.
const WHAT: [(&str, bool, bool); 3] = [("values", false, true), ("keys", true, false), ("keys and values", true, true)];

/// The plainest reading under which some rows are the candidate's.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let groups = heads.groups.min(GROUPS);
    let others = (0..groups).map(Whose::Group);
    let from: Vec<Whose> = [Whose::Before, Whose::Behind, Whose::Turn].into_iter().chain(others).collect();
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(TOKENS).max(1)).collect();
    let whose = [None].into_iter().chain((0..groups).map(Some));
    for of in whose {
        for (what, keys, values) in WHAT {
            for from in &from {
                // All key heads do not read one of theirs, and none reads its own in another's place.
                let is_own = matches!(from, Whose::Group(group) if of.is_none_or(|of| of == *group))
                    || matches!(from, Whose::Turn if of.is_some());
                let output = |row: usize| {
                    let which = |group: usize| of.is_none_or(|of| of == group);
                    let read = |all: &Array2<f64>, is_key: bool, head: usize| {
                        let own = |group: usize| all.slice(s![.., group * heads.d..(group + 1) * heads.d]).to_owned();
                        let is_other = if is_key { keys } else { values };
                        let group = if is_other { from.group(heads, head) } else { heads.group(head) };
                        if is_other { from.read(&own(group)) } else { own(group) }
                    };
                    heads.output(heads.reading(row, which, read).view())
                };
                let is = |row: &usize| {
                    let apart = output(*row) - bench.candidate.row(*row);
                    apart.dot(&apart).sqrt() <= limit(*row, bench)
                };
                if is_own || some.len() < FEWEST || !some.iter().all(is) {
                    continue;
                }
                let mut all = bench.ideal.clone();
                for row in rows {
                    let own = output(*row);
                    // Where heads are shown, others are as they were.
                    let is_other =
                        |column: usize| heads.head_at(column).is_none_or(|head| from.is_read_by(heads, head, of));
                    let changed = (0..own.len()).filter(|column| is_other(*column));
                    changed.for_each(|column| all[[*row, column]] = own[column]);
                }
                return Some(Solution::new(vec![from.told(of, what)], all));
            }
        }
    }
    None
}

impl Whose {
    /// The key head that a query head reads.
    fn group(self, heads: &Heads, head: usize) -> usize {
        match self {
            Whose::Group(other) => other,
            Whose::Turn => head % heads.groups,
            Whose::Before | Whose::Behind => heads.group(head),
        }
    }

    /// Whether a query head reads it in the place of its own.
    fn is_read_by(self, heads: &Heads, head: usize, of: Option<usize>) -> bool {
        match self {
            Whose::Turn => self.group(heads, head) != heads.group(head),
            Whose::Before | Whose::Behind | Whose::Group(_) => of.is_none_or(|of| of == heads.group(head)),
        }
    }

    /// What is read of a key head's rows.
    fn read(self, of: &Array2<f64>) -> Array2<f64> {
        let last = of.nrows().saturating_sub(1);
        let read = |row: usize| match self {
            Whose::Before => row.saturating_sub(1),
            Whose::Behind => (row + 1).min(last),
            Whose::Group(_) | Whose::Turn => row,
        };
        of.select(Axis(0), &(0..of.nrows()).map(read).collect::<Vec<_>>())
    }

    fn told(self, of: Option<usize>, what: &str) -> String {
        let reader = of.map_or_else(|| "every key head".to_owned(), |of| format!("key head {of}"));
        let whose = match self {
            Whose::Before => "the token before's".to_owned(),
            Whose::Behind => "the next token's".to_owned(),
            Whose::Group(group) => format!("key head {group}'s"),
            Whose::Turn => {
                return format!("query heads read the {what} of the key heads in turn, one after the other");
            }
        };
        format!("attention reads for {reader} {whose} {what}")
    }
}
