//! One token whose key, or whose value, is another, whatever it is.
//!
//! ```text
//! o′(h,i) = (1 − αᵢₕ)·o₋ⱼ(h,i) + αᵢₕ·vⱼ        of one key j: its score is another; solved for α of each head and row
//! o′(h,i) = o(h,i) + p(h,i,j)·(v′ − vⱼ)        of one value j; solved for v′
//! ```
//!
//! with o₋ⱼ what a head has without token j.

use ndarray::{Array1, Array2, s};
use rayon::prelude::*;
use reference::{LayerSite, Site};

use super::heads::Heads;
use super::softmax::{Sums, joined};
use super::ways::{EQUATIONS, is_row};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::least_squares;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;
use crate::failure::Failure;

/// Tokens by which it is found, and those that it takes.
const TOKENS: usize = 8;
const FEWEST: usize = 2;

/// Keys that are looked through, and numbers that are solved for, at most.
const KEYS: usize = 512;
const NUMBERS: usize = 256;

/// How far two values may be apart to be the same, as a share: some roundings of what it takes to solve for one.
const SAME: f64 = 1e-3;

/// Of some rows that are off, of which each sees the token.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let some: Vec<usize> = rows.iter().copied().step_by(rows.len().div_ceil(TOKENS).max(1)).collect();
    // Tokens that all of them see: patches of another image see others.
    let spans = || rows.iter().map(|row| heads.spans[*row]);
    let seen = spans().map(|span| span.from).max()?..spans().map(|span| span.to).min()?;
    if some.len() < FEWEST || seen.len() > KEYS || heads.count * EQUATIONS > bench.candidate.ncols() {
        return None;
    }
    let sums: Vec<(usize, Vec<Sums>)> = some.iter().map(|row| (*row, heads.sums(*row))).collect();
    let is_key = |key: &usize| sums.iter().all(|(row, sums)| of_key(heads, (*row, sums), *key, bench).is_some());
    let found = seen.clone().into_par_iter().find_first(is_key);
    if let Some(key) = found {
        let mut values = bench.ideal.clone();
        for row in rows {
            let own = of_key(heads, (*row, &heads.sums(*row)), key, bench)?;
            values.row_mut(*row).assign(&own);
        }
        let said = format!("of the keys, that of token {key} alone is another: {}", place(rows, bench));
        return Some(Solution::new(vec![said], values));
    }
    seen.into_par_iter().find_map_first(|key| of_value(heads, (rows, &sums), key, bench))
}

fn place(rows: &[usize], bench: &Bench<'_, '_>) -> String {
    listed::rows(bench, rows).trim_end_matches(',').to_owned()
}

/// What a row has if the score of one key is another.
fn of_key(heads: &Heads, (row, sums): (usize, &[Sums]), key: usize, bench: &Bench<'_, '_>) -> Option<Array1<f64>> {
    let span = heads.spans[row];
    let without: Vec<Array1<f64>> = sums.iter().map(|own| own.without(span, &[key], false)).collect();
    let mut along = Array2::zeros((heads.count, heads.count * heads.d));
    for (head, own) in sums.iter().enumerate() {
        along.slice_mut(s![head, heads.columns(head)]).assign(&(&own.value(key) - &without[head]));
    }
    let base = heads.output(joined(&without).view());
    let columns = heads.changes(&along).reversed_axes();
    let shares = least_squares::solve(columns.view(), (&bench.candidate.row(row) - &base).view())?;
    let values = base + columns.dot(&Array1::from(shares.x));
    is_row(row, values.view(), bench).then_some(values)
}

/// What is said if one value is another, in all rows alike.
fn of_value(
    heads: &Heads,
    (rows, some): (&[usize], &[(usize, Vec<Sums>)]),
    key: usize,
    bench: &Bench<'_, '_>,
) -> Option<Solution> {
    let (count, width) = (heads.groups * heads.d, bench.candidate.ncols());
    if count > NUMBERS || some.len() * width < EQUATIONS * count {
        return None;
    }
    let along = |row: usize, sums: &[Sums]| -> Array2<f64> {
        let mut along = Array2::zeros((count, heads.count * heads.d));
        for (head, own) in sums.iter().enumerate() {
            let (_, weights) = own.weighed(heads.spans[row], own.scores());
            let p = weights[key - heads.spans[row].from];
            let columns = heads.columns(head);
            let group = heads.columns(heads.group(head));
            group.zip(columns).for_each(|(number, column)| along[[number, column]] = p);
        }
        heads.changes(&along).reversed_axes()
    };
    let (mut columns, mut apart) = (Vec::new(), Vec::new());
    for (row, sums) in some {
        columns.extend(along(*row, sums).iter().copied());
        apart.extend(&bench.candidate.row(*row) - &bench.ideal.row(*row));
    }
    let columns = Array2::from_shape_vec((apart.len(), count), columns).ok()?;
    let by = Array1::from(least_squares::solve(columns.view(), Array1::from(apart).view())?.x);
    let mut values = bench.ideal.clone();
    for row in rows {
        let own = &bench.ideal.row(*row) + &along(*row, &heads.sums(*row)).dot(&by);
        if !is_row(*row, own.view(), bench) {
            return None;
        }
        values.row_mut(*row).assign(&own);
    }
    let value = &heads.inputs()[2].row(key) + &by;
    let whose = whose(&value, key, bench).ok().flatten().map(|whose| format!(", {whose}")).unwrap_or_default();
    let said = format!("of the values, that of token {key} alone is another{whose}: {}", place(rows, bench));
    Some(Solution::new(vec![said], values))
}

/// Whose a value is: its own times a number, or that of another token or layer.
fn whose(value: &Array1<f64>, key: usize, bench: &Bench<'_, '_>) -> Result<Option<String>, Failure> {
    let Some(layer) = bench.site.layer() else { return Ok(None) };
    let size = value.dot(value).sqrt();
    let is = |other: Array1<f64>| {
        let apart = &other - value;
        apart.dot(&apart).sqrt() <= SAME * size
    };
    let layers = bench.config().num_hidden_layers;
    for other in std::iter::once(layer).chain((0..layers).filter(|other| *other != layer)) {
        let Some(all) = bench.in_all_steps(Site::Layer(other, LayerSite::VProj))? else { continue };
        if all.ncols() != value.len() {
            continue;
        }
        let token = (0..all.nrows()).find(|token| is(all.row(*token).to_owned()));
        if let Some(token) = token {
            let place = if other == layer { String::new() } else { format!(" in layer {other}") };
            return Ok(Some(format!("that of token {token}{place}")));
        }
        let own = all.row(key.min(all.nrows() - 1)).to_owned();
        let times = own.dot(value) / own.dot(&own);
        if other == layer && is(own * times) {
            return Ok(Some(format!("{times:.4} times as large")));
        }
    }
    Ok(None)
}
