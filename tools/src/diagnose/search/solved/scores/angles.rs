//! Queries and keys that are rotated by other angles than their positions', of some heads or of all.
//!
//! ```text
//! p′(h,i,j) ∝ exp(qᵢ·R(a·i + b·j)·kⱼ/√d)        solved for a and b of each head; right are a = b = 0
//! ```
//!
//! with q and k as they are rotated, and R(m) what turns a key on by m positions.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, s};

use super::rows::{Row, Rows, softmax};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::solved::turned;
use crate::diagnose::search::solved::weighing::{ANGLES, COARSE, LEFT};
use crate::failure::Failure;

/// Rows of a head by which its angles are told, and keys of a row at most.
const SOME: usize = 6;
const MOST: usize = 512;

pub(super) fn solve(rows: &Rows, bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let Some([q, k]) = Rows::inputs(bench)?.filter(|[_, k]| k.nrows() <= MOST) else { return Ok(None) };
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    for head in 0..rows.heads {
        let own: Vec<Row> = rows.off.iter().copied().filter(|row| row.head == head).collect();
        if own.is_empty() {
            continue;
        }
        let some: Vec<Row> = own.iter().rev().copied().step_by(own.len().div_ceil(SOME)).collect();
        let holds =
            |way: &usize| some.iter().all(|row| is(*row, &turned(*row, ANGLES[*way].0, (&q, &k), bench), bench));
        let Some(way) = (0..ANGLES.len()).find(holds) else { return Ok(None) };
        found.insert(head, way);
    }
    let of = |row: Row| turned(row, ANGLES[found[&row.head]].0, (&q, &k), bench);
    let Some(values) = rows.held(of, bench).filter(|_| !found.is_empty()) else { return Ok(None) };
    let mut ways: Vec<usize> = found.values().copied().collect();
    ways.sort_unstable();
    ways.dedup();
    let told = ways.into_iter().map(|way| {
        let heads: Vec<String> =
            found.iter().filter(|(_, own)| **own == way).map(|(head, _)| head.to_string()).collect();
        let of = match &heads[..] {
            all if all.len() == rows.heads => "every head".to_owned(),
            [one] => format!("head {one}"),
            some => format!("heads {}", some.join(", ")),
        };
        format!("{of}: scores are as if {}", ANGLES[way].1)
    });
    Ok(Some(Solution::new(told.collect(), values)).filter(|solution| solution.is_more(bench)))
}

/// Whether a row's probabilities are the candidate's.
fn is(row: Row, values: &Array1<f64>, bench: &Bench<'_, '_>) -> bool {
    let (own, right) = (bench.candidate.row(row.at), bench.ideal.row(row.at));
    let size = |x: Array1<f64>| x.dot(&x).sqrt();
    let off = size(&own - &right);
    size(values - &own) <= bench.noise(row.at).clamp(LEFT * off, COARSE * off)
}

/// A row's probabilities, where its keys are turned on.
fn turned(
    row: Row,
    (of_query, of_key): (isize, isize),
    (q, k): (&Array2<f64>, &Array2<f64>),
    bench: &Bench<'_, '_>,
) -> Array1<f64> {
    let config = bench.config();
    let (d, group) = (config.head_dim, row.head * config.num_key_value_heads / config.num_attention_heads);
    let query = q.slice(s![row.token, row.head * d..(row.head + 1) * d]);
    let score = |(key, right): (usize, &f64)| {
        if *right == 0.0 {
            return f64::NEG_INFINITY;
        }
        let by = of_query * row.token.cast_signed() + of_key * key.cast_signed();
        let own = k.slice(s![key, group * d..(group + 1) * d]).to_owned();
        query.dot(&turned::on(&own, by, &config)) / (d as f64).sqrt()
    };
    softmax(bench.ideal.row(row.at).indexed_iter().map(score).collect())
}
