//! What heads read in the place of their own keys or values: those of another token, or as of another position, zeros, another key
//! head's, or the key heads' in turn.
//!
//! ```text
//! o(h,i) = Σⱼ p(qᵢ·k(g′,j′))·v(g″,j″)        solved for g′ or g″, of some key head g or of all, or for j′ or j″ = j + m
//!                                            or k′ⱼ = R(m)·kⱼ, of a run of keys j or of all
//! ```

mod whose;

use ndarray::{Array1, Array2, s};
use rayon::prelude::*;

pub(in crate::diagnose) use self::whose::ANGLES;
use self::whose::{Of, Whose};
use super::heads::Heads;
use super::way::Run;
use super::ways::is_row;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Tokens by which it is found, and those that it takes: under one of some thousand readings each.
const TOKENS: usize = 12;
const FEWEST: usize = 2;

/// Key heads among which another is looked for: more than the models have.
const GROUPS: usize = 16;

/// Keys of a page, and how many pages are looked through.
const PAGES: [usize; 8] = [128, 64, 32, 16, 8, 4, 2, 1];
const MOST_PAGES: usize = 32;

/// Multiplications that are spent: some seconds of a processor.
const BUDGET: usize = 5_000_000_000;

/// What is read otherwise: keys, values, or both.
const WHAT: [(&str, bool, bool); 3] = [("values", false, true), ("keys", true, false), ("keys and values", true, true)];

/// What is said where keys read otherwise, and values, give the same: of runs that every token sees whole, weights change places
/// with values.
const EITHER: &str = "keys, or the values,";

/// A reading.
#[derive(Debug, Clone, Copy)]
struct Reading {
    from: Whose,
    of: Of,
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
    let is = |reading: &Reading, row: &usize| is_row(*row, reading.output(heads, *row, bench).view(), bench);
    // The last sees the most.
    let held = |reading: &Reading| some.iter().rev().all(|row| is(reading, row));
    let all: Vec<Reading> = all(heads, rows, bench).take(BUDGET / cost.max(1)).collect();
    let reading = all.into_par_iter().find_first(held)?;
    let mut values = bench.ideal.clone();
    for row in rows {
        let own = reading.output(heads, *row, bench);
        // Where heads are shown, others are as they were.
        let is_other =
            |column: usize| heads.head_at(column).is_none_or(|head| reading.from.is_read_by(heads, head, reading.of));
        let changed = (0..own.len()).filter(|column| is_other(*column));
        changed.for_each(|column| values[[*row, column]] = own[column]);
    }
    let other = Reading { keys: !reading.keys, values: !reading.values, ..reading };
    let is_either = (other.keys || other.values) && other.from.is_possible(other.of, other.values) && held(&other);
    let what = if is_either { EITHER } else { reading.what };
    let single = bench.rows_of_single_tokens();
    let calls = if !single.is_empty() && rows == single { ", in calls of one token" } else { "" };
    Some(Solution::new(vec![format!("{}{calls}", reading.from.told(reading.of, what, reading.run, n))], values))
}

/// All of them, the plainest first.
fn all(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> impl Iterator<Item = Reading> {
    let groups = heads.groups.min(GROUPS);
    let whole = Run { from: 0, to: heads.spans.len() };
    let count = heads.count;
    let whose = [Of::All].into_iter().chain((0..groups).map(Of::Group));
    let of_heads = whose.flat_map(move |of| each(Whose::of_heads(of, groups), of, whole));
    let of_queries = (0..count).map(Of::Query).flat_map(move |of| each(Whose::of_queries(groups), of, whole));
    let runs = [whole].into_iter().chain(runs(rows, bench));
    let of_tokens = runs.flat_map(move |run| each(Whose::of_tokens(whole.to), Of::All, run));
    let of_rings = each(Whose::rings(whole.to), Of::All, whole);
    let of_pages = pages(whole.to).flat_map(|(run, from)| each(from, Of::All, run));
    of_heads.chain(of_queries).chain(of_tokens).chain(of_rings).chain(of_pages)
}

/// Pages of so many keys that have another's, or whose keys are another's and the other way round.
fn pages(keys: usize) -> impl Iterator<Item = (Run, Vec<Whose>)> {
    let sizes = PAGES.into_iter().filter(move |size| *size < keys && keys / size <= MOST_PAGES);
    let each =
        sizes.flat_map(move |size| (0..keys / size).flat_map(move |a| (0..keys / size).map(move |b| (size, a, b))));
    each.filter(|(_, a, b)| a != b).map(|(size, a, b)| {
        let by = (b * size).cast_signed() - (a * size).cast_signed();
        let exchanged = (a < b).then_some(Whose::Exchanged(by));
        let run = Run { from: a * size, to: (a + 1) * size };
        (run, exchanged.into_iter().chain([Whose::Token(by)]).collect())
    })
}

fn each(from: Vec<Whose>, of: Of, run: Run) -> impl Iterator<Item = Reading> {
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
        let which = |head: usize| self.of.is_of(heads, head);
        let read = |all: &Array2<f64>, is_key: bool, head: usize| {
            let own = |group: usize| all.slice(s![.., group * heads.d..(group + 1) * heads.d]).to_owned();
            let is_other = if is_key { self.keys } else { self.values };
            if is_other {
                self.from.read(&own(self.from.group(heads, head)), row, self.run, &config)
            } else {
                own(heads.group(head))
            }
        };
        heads.output(heads.reading(row, which, read).view())
    }
}
