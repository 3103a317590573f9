//! What heads read in the place of their own keys or values: those of another token, or as of another position, zeros, another key
//! head's, or the key heads' in turn.
//!
//! ```text
//! o(h,i) = Σⱼ p(qᵢ·k(g′,j′))·v(g″,j″)        solved for g′ or g″, of some key head g or of all, or for j′ or j″ = j + m
//!                                            or k′ⱼ = R(m)·kⱼ, of a run of keys j or of all
//! ```

mod whose;

use ndarray::{Array1, Array2, s};

use self::whose::Whose;
use super::heads::Heads;
use super::way::Run;
use super::ways::limit;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Tokens by which it is found, and those that it takes: under one of some thousand readings each.
const TOKENS: usize = 12;
const FEWEST: usize = 2;

/// Key heads among which another is looked for: more than the models have.
const GROUPS: usize = 16;

/// Multiplications that are spent: some seconds of a processor.
const BUDGET: usize = 10_000_000_000;

/// What is read otherwise: keys, values, or both.
const WHAT: [(&str, bool, bool); 3] = [("values", false, true), ("keys", true, false), ("keys and values", true, true)];

/// A reading.
#[derive(Debug, Clone, Copy)]
struct Reading {
    from: Whose,
    /// The key head that reads it; all, if `None`.
    of: Option<usize>,
    /// The keys for which it is read.
    run: Run,
    what: &'static str,
    keys: bool,
    values: bool,
}

/// The plainest reading under which some rows are the candidate's.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(TOKENS).max(1)).collect();
    if some.len() < FEWEST {
        return None;
    }
    let n = heads.spans.len();
    let cost = 2 * n * heads.count * heads.d + heads.count * heads.d * bench.candidate.ncols();
    let is = |reading: &Reading, row: &usize| {
        let apart = reading.output(heads, *row, bench) - bench.candidate.row(*row);
        apart.dot(&apart).sqrt() <= limit(*row, bench)
    };
    // The last sees the most.
    let held = |reading: &Reading| some.iter().rev().all(|row| is(reading, row));
    let reading = all(heads, rows, bench).take(BUDGET / cost.max(1)).find(held)?;
    let mut values = bench.ideal.clone();
    for row in rows {
        let own = reading.output(heads, *row, bench);
        // Where heads are shown, others are as they were.
        let is_other =
            |column: usize| heads.head_at(column).is_none_or(|head| reading.from.is_read_by(heads, head, reading.of));
        let changed = (0..own.len()).filter(|column| is_other(*column));
        changed.for_each(|column| values[[*row, column]] = own[column]);
    }
    Some(Solution::new(vec![reading.told(n)], values))
}

/// All of them, the plainest first.
fn all(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> impl Iterator<Item = Reading> {
    let groups = heads.groups.min(GROUPS);
    let whole = Run { from: 0, to: heads.spans.len() };
    let whose = [None].into_iter().chain((0..groups).map(Some));
    let of_heads = whose.flat_map(move |of| each(Whose::of_heads(groups), of, whole));
    let runs = [whole].into_iter().chain(runs(rows, bench));
    of_heads.chain(runs.flat_map(move |run| each(Whose::of_tokens(whole.to), None, run)))
}

fn each(from: Vec<Whose>, of: Option<usize>, run: Run) -> impl Iterator<Item = Reading> {
    WHAT.into_iter().flat_map(move |(what, keys, values)| {
        let possible = from.clone().into_iter().filter(move |from| from.is_possible(of, values));
        possible.map(move |from| Reading { from, of, run, what, keys, values })
    })
}

/// Runs of keys that may be read otherwise: from the first token that is off, or of the first call, or of those behind it.
fn runs(rows: &[usize], bench: &Bench<'_, '_>) -> Vec<Run> {
    let (n, first) = (bench.candidate.nrows(), rows.iter().min().copied().unwrap_or_default());
    let call = bench.calls().first().copied().filter(|call| *call < n).unwrap_or(n);
    let mut runs = Vec::new();
    for from in [first, 0, call] {
        for to in [n, call, from + 1] {
            let run = Run { from, to };
            if from < to && to <= n && run.len() < n && !runs.contains(&run) {
                runs.push(run);
            }
        }
    }
    runs
}

impl Reading {
    /// What the site has of a token.
    fn output(&self, heads: &Heads, row: usize, bench: &Bench<'_, '_>) -> Array1<f64> {
        let config = bench.config();
        let which = |group: usize| self.of.is_none_or(|of| of == group);
        let read = |all: &Array2<f64>, is_key: bool, head: usize| {
            let own = |group: usize| all.slice(s![.., group * heads.d..(group + 1) * heads.d]).to_owned();
            let is_other = if is_key { self.keys } else { self.values };
            if is_other {
                self.from.read(&own(self.from.group(heads, head)), self.run, &config)
            } else {
                own(heads.group(head))
            }
        };
        heads.output(heads.reading(row, which, read).view())
    }

    fn told(&self, keys: usize) -> String {
        let Run { from, to } = self.run;
        let run = match self.run.len() {
            len if len == keys => String::new(),
            1 => format!(", of token {from}"),
            _ => format!(", of tokens {from} to {}", to - 1),
        };
        self.from.told(self.of, self.what, &run)
    }
}
