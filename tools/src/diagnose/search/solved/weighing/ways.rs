//! The way under which a token's row is the candidate's.

use ndarray::{Array1, Array2, ArrayView1, Axis, stack};

use super::heads::Heads;
use super::softmax::joined;
use super::way::{Run, Way};
use crate::diagnose::search::Bench;

/// What may be left of a row's difference under a way, as a share of its norm. What is left of a right way is rounding, and this
/// allows roundings a tenth as large as the fault; that one of some hundred wrong ways leaves so little of as many independent
/// differences as a row has channels, does not happen from some ten channels on.
pub(super) const LEFT: f64 = 0.1;

/// The same where roundings of that size are known to be there: a wrong way that leaves so little has a direction within 17° of
/// the right one's, which by chance does not happen from some twenty channels on.
pub(super) const COARSE: f64 = 0.3;

/// Keys of a token that are looked for together.
const KEYS: usize = 4;

/// What a key more has to leave of the distance, at most: a fifth less, where keys by chance take next to nothing off. So it is
/// with what takes more numbers to say.
const NEARER: f64 = 0.8;

/// How far a row of values may be from the candidate's to be its.
pub(in crate::diagnose::search::solved) fn limit(row: usize, bench: &Bench<'_, '_>) -> f64 {
    let off = distance(row, bench.ideal.row(row), bench);
    bench.noise(row).clamp(LEFT * off, COARSE * off)
}

/// The way under which a row is the candidate's, the nearest of those under which it is; or several keys that are missing, or are
/// zeros. With the values that the row has then.
pub(super) fn of_row(heads: &Heads, row: usize, bench: &Bench<'_, '_>) -> Option<(Vec<Way>, Array1<f64>)> {
    let (sums, span, limit) = (heads.sums(row), heads.spans[row], limit(row, bench));
    let ways = Way::all(span, row, heads.spans.len());
    let context = |way: &Way| joined(&sums.iter().map(|sums| sums.under(span, *way)).collect::<Vec<_>>());
    let outputs = outputs(heads, ways.iter().map(context).collect())?;
    let off: Vec<f64> = outputs.rows().into_iter().map(|values| distance(row, values, bench)).collect();
    let nearest = |is: &dyn Fn(usize) -> bool| {
        (0..ways.len()).filter(|i| is(*i) && off[*i] <= limit).min_by(|a, b| off[*a].total_cmp(&off[*b]))
    };
    let plain = nearest(&|i| ways[i].is_plain());
    let any = nearest(&|i| plain.is_none_or(|plain| off[i] <= NEARER * off[plain]));
    if let Some(found) = any.or(plain) {
        return Some((vec![ways[found]], outputs.row(found).to_owned()));
    }
    [(false, Way::Without as fn(Run) -> Way), (true, Way::Zeroed)].into_iter().find_map(|(is_zeroed, way)| {
        let without =
            |keys: &[usize]| joined(&sums.iter().map(|sums| sums.without(span, keys, is_zeroed)).collect::<Vec<_>>());
        let (keys, values) = keys(heads, row, limit, &without, bench)?;
        Some((keys.into_iter().map(|key| way(Run::one(key))).collect(), values))
    })
}

/// Keys without which a row is the candidate's: the one that leaves least, then the next.
fn keys(
    heads: &Heads,
    row: usize,
    limit: f64,
    without: &impl Fn(&[usize]) -> Array1<f64>,
    bench: &Bench<'_, '_>,
) -> Option<(Vec<usize>, Array1<f64>)> {
    let span = heads.spans[row];
    let mut keys: Vec<usize> = Vec::new();
    let mut left = f64::INFINITY;
    while keys.len() < KEYS.min(span.len() - 1) {
        let others: Vec<usize> = (span.from..span.to).filter(|key| !keys.contains(key)).collect();
        let with = |key: &usize| without(&[&keys[..], &[*key]].concat());
        let outputs = outputs(heads, others.iter().map(with).collect())?;
        let off = outputs.rows().into_iter().map(|values| distance(row, values, bench));
        let (nearest, least) = off.enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
        if least > NEARER * left {
            return None;
        }
        left = least;
        keys.push(others[nearest]);
        if least <= limit {
            return Some((keys, outputs.row(nearest).to_owned()));
        }
    }
    None
}

fn outputs(heads: &Heads, contexts: Vec<Array1<f64>>) -> Option<Array2<f64>> {
    let views: Vec<ArrayView1<'_, f64>> = contexts.iter().map(|of| of.view()).collect();
    Some(heads.outputs(&stack(Axis(0), &views).ok()?, false))
}

fn distance(row: usize, values: ArrayView1<'_, f64>, bench: &Bench<'_, '_>) -> f64 {
    let apart = &values - &bench.candidate.row(row);
    apart.dot(&apart).sqrt()
}
