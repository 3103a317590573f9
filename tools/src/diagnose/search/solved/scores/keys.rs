//! Keys that are others than they must be, where most of those that a token sees are right.
//!
//! ```text
//! ln p′(i,j) − ln p(i,j) − cᵢ = qᵢ·(k′ⱼ − kⱼ)/√d        held to what may stand for key j
//! ```
//!
//! with c the difference of the row's right keys, that in their middle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ndarray::{Array1, Array2, s};

use super::rows::{Row, Rows, moved};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::solved::turned;
use crate::failure::Failure;

/// How far a key's score may be off by roundings: those of f32's sums, and so many of what is stored.
const SAME: f64 = 1e-3;
const ROUNDINGS: f64 = 16.0;

/// Positions by which a rotation is off, at most.
const FURTHEST: isize = 64;

/// What may be left of the squares of a key's differences.
const LEFT: f64 = 0.01;

/// Queries that a key is held to, at least, and keys that are alike, for it to be told.
const QUERIES: usize = 3;

/// Statements at most.
const STATEMENTS: usize = 4;

/// What stands for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stands {
    /// Itself, rotated as if it stood so many positions further on.
    Rotated(isize),
    /// The key of the token so many behind it.
    Token(isize),
    /// Zeros.
    Zeros,
    /// No key of this request.
    Unknown,
}

pub(super) fn solve(rows: &Rows, bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let Some([q, k]) = Rows::inputs(bench)? else { return Ok(None) };
    let keys = Keys { bench, q, k };
    let differs = keys.differences(rows);
    let off: BTreeSet<usize> = differs.keys().copied().collect();
    let n = bench.candidate.ncols();
    if off.is_empty() || 2 * off.len() > n {
        return Ok(None);
    }
    let found: BTreeMap<usize, Stands> =
        differs.iter().map(|(key, of)| (*key, keys.stands(*key, of).unwrap_or(Stands::Unknown))).collect();
    if found.values().all(|stands| *stands == Stands::Unknown) && !keys.is_right_elsewhere(rows, &off) {
        return Ok(None);
    }
    let said = told(&found);
    if said.is_empty() {
        return Ok(None);
    }
    let score = |row: Row, key: usize| match found.get(&key) {
        Some(Stands::Unknown) | None => 0.0,
        Some(stands) => keys.moved(row, key, *stands),
    };
    let values = rows.held(|row| moved(row, bench, |key, _| score(row, key)), bench);
    let is_known = found.values().all(|stands| *stands != Stands::Unknown);
    Ok(match values {
        Some(values) => Some(Solution::new(said, values)),
        None if is_known => None,
        None => Some(Solution::without_values(said.join("; "))),
    })
}

struct Keys<'b, 'a, 'c> {
    bench: &'b Bench<'a, 'c>,
    q: Array2<f64>,
    k: Array2<f64>,
}

impl Keys<'_, '_, '_> {
    /// Keys that are off, with the rows that see them and by how much their scores are.
    fn differences(&self, rows: &Rows) -> BTreeMap<usize, Vec<(Row, f64)>> {
        let same = SAME.max(ROUNDINGS * self.bench.unit());
        let mut all: BTreeMap<usize, Vec<(Row, f64)>> = BTreeMap::new();
        for row in &rows.off {
            let logs = Rows::logs(*row, self.bench);
            let mut sorted: Vec<f64> = logs.iter().map(|(_, _, more)| *more).collect();
            sorted.sort_by(f64::total_cmp);
            let Some(middle) = sorted.get(sorted.len() / 2) else { continue };
            for (key, _, more) in &logs {
                all.entry(*key).or_default().push((*row, more - middle));
            }
        }
        all.retain(|_, of| of.iter().filter(|(_, more)| more.abs() > same).count() * 2 > of.len());
        all
    }

    /// Whether every row is right but for these keys.
    fn is_right_elsewhere(&self, rows: &Rows, off: &BTreeSet<usize>) -> bool {
        let same = SAME.max(ROUNDINGS * self.bench.unit());
        rows.off.iter().all(|row| {
            let more = Rows::logs(*row, self.bench).into_iter().filter(|(key, ..)| !off.contains(key));
            let (least, most) =
                more.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (_, _, more)| (a.min(more), b.max(more)));
            most - least <= 2.0 * same
        })
    }

    /// What a key is under which its scores are the candidate's.
    fn stands(&self, key: usize, of: &[(Row, f64)]) -> Option<Stands> {
        let n = self.k.nrows().cast_signed();
        let rotated = (-FURTHEST..=FURTHEST).filter(|by| *by != 0).map(Stands::Rotated);
        let tokens = (-key.cast_signed()..n - key.cast_signed()).filter(|by| *by != 0).map(Stands::Token);
        let total: f64 = of.iter().map(|(_, more)| more * more).sum();
        let left = |stands: Stands| {
            of.iter().map(|(row, more)| (more - self.moved(*row, key, stands)).powi(2)).sum::<f64>() / total
        };
        let each = [Stands::Zeros].into_iter().chain(rotated).chain(tokens).map(|stands| (left(stands), stands));
        let (left, stands) = each.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (of.len() >= QUERIES && left <= LEFT).then_some(stands)
    }

    /// By how much a key's score is more in a row, where another stands for it.
    fn moved(&self, row: Row, key: usize, stands: Stands) -> f64 {
        let config = self.bench.config();
        let d = config.head_dim;
        let group = row.head * config.num_key_value_heads / config.num_attention_heads;
        let q = self.q.slice(s![row.token, row.head * d..(row.head + 1) * d]);
        let of = |token: usize| self.k.slice(s![token, group * d..(group + 1) * d]).to_owned();
        let own = of(key);
        let other = match stands {
            Stands::Rotated(by) => turned::on(&own, by, &config),
            Stands::Token(by) => of(key.saturating_add_signed(by).min(self.k.nrows() - 1)),
            Stands::Zeros => Array1::zeros(d),
            Stands::Unknown => own.clone(),
        };
        q.dot(&(other - own)) / (d as f64).sqrt()
    }
}

/// Runs of keys for which alike stands.
fn told(found: &BTreeMap<usize, Stands>) -> Vec<String> {
    let mut runs: Vec<(usize, usize, Stands)> = Vec::new();
    for (key, stands) in found {
        match runs.last_mut() {
            Some((_, last, same)) if *last + 1 == *key && same == stands => *last = *key,
            _ => runs.push((*key, *key, *stands)),
        }
    }
    if runs.len() > STATEMENTS {
        return Vec::new();
    }
    let each = runs.into_iter().map(|(first, last, stands)| {
        if first == last { format!("key {first}: {stands}") } else { format!("keys {first} to {last}: {stands}") }
    });
    each.collect()
}

impl fmt::Display for Stands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = |by: isize| if by < 0 { "before" } else { "behind" };
        match self {
            Stands::Rotated(by) => write!(f, "each is rotated by the position {} {} its own", by.abs(), way(*by)),
            Stands::Token(by) => write!(f, "each is the key of the token {} {} its own", by.abs(), way(*by)),
            Stands::Zeros => write!(f, "these have a score of 0, as keys of zeros"),
            Stands::Unknown => {
                write!(
                    f,
                    "these alone are off, and none of this request's keys fits: another request's, or never written"
                )
            }
        }
    }
}
