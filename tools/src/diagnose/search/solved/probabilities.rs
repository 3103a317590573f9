//! What attention's probabilities are made of, where they are shown.
//!
//! ```text
//! p′(h,i,j) = cⱼ·p(h,i,j) / Σₖ cₖ·p(h,i,k)        solved for c; or of head h's queries and another head's keys
//! ```
//!
//! with the probabilities p \[heads·n, n\] of n tokens, one head's rows below the other's, and the counts c \[n\] of keys.

use std::collections::BTreeMap;

use ndarray::{Array2, ArrayView1, s};
use reference::{LayerSite, RoundingContract, Site};

use super::listed::listed;
use super::scores;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// How far counts may be apart to be the same, as a share: exponentials have the absolute errors of their scores, which are sums
/// of products; and in roundings of what is stored, of two probabilities and of the row's middle one.
const SAME: f64 = 1e-3;
const ROUNDINGS: f64 = 16.0;

/// Keys that a row has at least in which one is beside most.
const KEYS: usize = 3;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Layer(layer, LayerSite::Probabilities) = bench.site else { return Ok(Vec::new()) };
    if let Some(solution) = dropped(bench) {
        return Ok(vec![solution]);
    }
    let found = of_keys(bench, layer)?;
    if found.is_empty() { scores::solve(bench) } else { Ok(found) }
}

/// Where some, here and there, are 0, and all others as much larger as makes up for these: dropout, as in training.
fn dropped(bench: &Bench<'_, '_>) -> Option<Solution> {
    let seen = || bench.candidate.iter().zip(&bench.ideal).filter(|(_, right)| **right > 0.0);
    let (zero, all) = (seen().filter(|(own, _)| **own == 0.0).count(), seen().count());
    let kept = || seen().filter(|(own, _)| **own != 0.0);
    let (own, right) = kept().fold((0.0, 0.0), |(own, right), (a, b)| (own + a, right + b));
    let (factor, share) = (own / right, zero as f64 / all.max(1) as f64);
    let same = SAME.max(ROUNDINGS * bench.unit());
    let is = |(own, right): (&f64, &f64)| (own - factor * right).abs() <= same * factor * right;
    // Of as many that are dropped by chance, a share has this deviation.
    let rate = 1.0 - factor.recip();
    let deviation = (rate * (1.0 - rate) / all.max(1) as f64).sqrt();
    let is_dropout = zero > 0 && rate > 0.0 && (share - rate).abs() <= 4.0 * deviation && kept().all(is);
    is_dropout.then(|| {
        let said = format!(
            "{:.1} % of the probabilities are 0, and all others {factor:.4} times as large: dropout of {rate:.4}, as in training",
            100.0 * share
        );
        let mut values = &bench.ideal * factor;
        values.zip_mut_with(&bench.candidate, |value, own| *value = if *own == 0.0 { 0.0 } else { *value });
        Solution::new(vec![said], values)
    })
}

/// Where some keys count otherwise, or heads read those of others.
fn of_keys(bench: &Bench<'_, '_>, layer: usize) -> Result<Vec<Solution>, Failure> {
    let config = bench.config();
    let (heads, n) = (config.num_attention_heads, bench.candidate.ncols());
    // Of several passes, only the last sees all keys.
    if bench.candidate.nrows() != heads * n {
        return Ok(Vec::new());
    }
    if let Some(solution) = counted(bench, n) {
        return Ok(vec![solution]);
    }
    let wanted = [LayerSite::QRope, LayerSite::KRope].map(|site| Site::Layer(layer, site));
    let beside = bench.rerun(&[], RoundingContract::IDEAL, &wanted)?.beside;
    let (Some(q), Some(k)) = (beside.get(&wanted[0]), beside.get(&wanted[1])) else { return Ok(Vec::new()) };
    let groups = config.num_key_value_heads;
    let (mut said, mut values) = (Vec::new(), bench.ideal.clone());
    for head in (0..heads).filter(|head| (head * n..(head + 1) * n).any(|row| bench.row_is_off(row))) {
        let own = head * groups / heads;
        let found = (0..groups).filter(|group| *group != own).find_map(|group| {
            let of = of_heads(bench, (q, head), (k, group), config.head_dim);
            is(bench, &of, head * n).then_some((group, of))
        });
        let Some((group, of)) = found else { return Ok(Vec::new()) };
        said.push(format!("head {head} reads the keys of key head {group} in place of {own}"));
        values.slice_mut(s![head * n..(head + 1) * n, ..]).assign(&of);
    }
    Ok((!said.is_empty()).then(|| Solution::new(said, values)).into_iter().collect())
}

/// Whether rows from one on are the candidate's.
fn is(bench: &Bench<'_, '_>, values: &Array2<f64>, first: usize) -> bool {
    values.rows().into_iter().enumerate().all(|(i, row)| {
        let apart = &row - &bench.candidate.row(first + i);
        apart.dot(&apart).sqrt() <= bench.rounding() * row.dot(&row).sqrt()
    })
}

/// The probabilities of a head's queries and a key head's keys, of the keys that are seen.
fn of_heads(
    bench: &Bench<'_, '_>,
    (q, head): (&Array2<f64>, usize),
    (k, group): (&Array2<f64>, usize),
    d: usize,
) -> Array2<f64> {
    let n = q.nrows();
    let (q, k) = (q.slice(s![.., head * d..(head + 1) * d]), k.slice(s![.., group * d..(group + 1) * d]));
    let mut scores = q.dot(&k.t()) / (d as f64).sqrt();
    for (i, mut row) in scores.rows_mut().into_iter().enumerate() {
        let is_seen = bench.ideal.row(head * n + i).mapv(|p| p > 0.0);
        let largest = row.iter().zip(&is_seen).filter(|(_, is)| **is).fold(f64::NEG_INFINITY, |a, (s, _)| a.max(*s));
        row.zip_mut_with(&is_seen, |s, is| *s = if *is { (*s - largest).exp() } else { 0.0 });
        let sum = row.sum();
        row /= sum;
    }
    scores
}

/// Where some keys count so many times, or not at all.
fn counted(bench: &Bench<'_, '_>, n: usize) -> Option<Solution> {
    let same = SAME.max(ROUNDINGS * bench.unit());
    let mut factors: BTreeMap<usize, f64> = BTreeMap::new();
    let off: Vec<usize> = (0..bench.candidate.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    for row in &off {
        for (key, factor) in counts(bench.candidate.row(*row), bench.ideal.row(*row)) {
            if (factor - 1.0).abs() <= same {
                continue;
            }
            let known = *factors.entry(key).or_insert(factor);
            if (known - factor).abs() > same * known {
                return None;
            }
        }
    }
    let (first, last) = (factors.values().copied().reduce(f64::min)?, factors.values().copied().reduce(f64::max)?);
    if 2 * factors.len() >= n || last - first > same * last {
        return None;
    }
    let mut values = bench.ideal.clone();
    for &row in &off {
        let mut own = values.row_mut(row);
        for (key, factor) in &factors {
            own[*key] *= factor;
        }
        let sum = own.sum();
        own /= sum;
    }
    let is_own = |row: &usize| {
        let (own, apart) = (bench.candidate.row(*row), &bench.candidate.row(*row) - &values.row(*row));
        apart.dot(&apart).sqrt() <= same * own.dot(&own).sqrt()
    };
    if !off.iter().all(is_own) {
        return None;
    }
    let keys = if factors.len() == 1 { "key" } else { "keys" };
    let how = if last == 0.0 { "not seen".to_owned() } else { format!("counted {last:.4} times") };
    let verb = if factors.len() == 1 { "is" } else { "are" };
    Some(Solution::new(vec![format!("{keys} {} {verb} {how}", listed(factors.keys()))], values))
}

/// How often each key of a row is counted, beside the one in the middle.
fn counts(own: ArrayView1<'_, f64>, right: ArrayView1<'_, f64>) -> Vec<(usize, f64)> {
    let seen = own.iter().zip(right).enumerate().filter(|(_, (_, right))| **right > 0.0);
    let ratios: Vec<(usize, f64)> = seen.map(|(key, (own, right))| (key, own / right)).collect();
    if ratios.len() < KEYS {
        return Vec::new();
    }
    let mut sorted: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(middle) = sorted.get(sorted.len() / 2).copied().filter(|middle| *middle > 0.0) else { return Vec::new() };
    ratios.into_iter().map(|(key, ratio)| (key, ratio / middle)).collect()
}
