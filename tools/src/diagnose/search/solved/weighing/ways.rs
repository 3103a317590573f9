//! The way under which a token's row is the candidate's.

use ndarray::{Array1, ArrayView1, Axis, stack};

use super::heads::Heads;
use super::way::{Run, Way};
use crate::diagnose::search::Bench;

/// What may be left of a row's difference under a way, as a share of its norm. What is left of a right way is rounding, and this
/// allows roundings a tenth as large as the fault; that one of some hundred wrong ways leaves so little of as many independent
/// differences as a row has channels, does not happen from some ten channels on.
pub(in crate::diagnose) const LEFT: f64 = 0.1;

/// The same where roundings of that size are known to be there: a wrong way that leaves so little has a direction within 17° of
/// the right one's, which by chance does not happen from some twenty channels on.
pub(in crate::diagnose) const COARSE: f64 = 0.3;

/// Contexts that are multiplied together: some megabytes of the widest.
const TOGETHER: usize = 256;

/// Keys of a token that are looked for together.
const KEYS: usize = 4;

/// What a key more has to leave of the distance, at most: a fifth less, where keys by chance take next to nothing off. So it is
/// with what takes more numbers to say.
const NEARER: f64 = 0.8;

/// How many equations a number that is solved for has, at least: as many as it takes are left to hold it to.
pub(super) const EQUATIONS: usize = 2;

/// How far a row of values may be from the candidate's to be its.
pub(in crate::diagnose) fn limit(row: usize, bench: &Bench<'_, '_>) -> f64 {
    let off = distance(row, bench.ideal.row(row), bench);
    bench.noise(row).clamp(LEFT * off, COARSE * off)
}

/// Whether a row of values is the candidate's.
pub(super) fn is_row(row: usize, values: ArrayView1<'_, f64>, bench: &Bench<'_, '_>) -> bool {
    distance(row, values, bench) <= limit(row, bench)
}

/// The way under which a row is the candidate's, the nearest of those under which it is; or several keys that are missing, or are
/// zeros. With the values that the row has then. Ways are told apart by some columns, and the one that is found is held to all.
pub(super) fn of_row(heads: &Heads, row: usize, bench: &Bench<'_, '_>) -> Option<(Vec<Way>, Array1<f64>)> {
    let (sums, span) = (heads.sums(row), heads.spans[row]);
    let own = heads.some_of(bench.candidate.row(row));
    let limit = {
        let right = heads.some_of(bench.ideal.row(row));
        let off = size(&(&own - &right));
        (2.0 * bench.unit() * size(&right)).clamp(LEFT * off, COARSE * off)
    };
    let ways = Way::all(span, row, heads.spans.len());
    let context = |way: &Way| heads.context(row, &sums, |_, sums| sums.under(span, *way));
    let held = |context: Array1<f64>| {
        let values = heads.output(context.view());
        is_row(row, values.view(), bench).then_some(values)
    };
    let off = distances(heads, ways.iter().map(context), &own)?;
    let nearest = |is: &dyn Fn(usize) -> bool| {
        (0..ways.len()).filter(|i| is(*i) && off[*i] <= limit).min_by(|a, b| off[*a].total_cmp(&off[*b]))
    };
    let plain = nearest(&|i| ways[i].is_plain());
    let any = nearest(&|i| plain.is_none_or(|plain| off[i] <= NEARER * off[plain]));
    if let Some(found) = any.or(plain) {
        return held(context(&ways[found])).map(|values| (vec![ways[found]], values));
    }
    [(false, Way::Without as fn(Run) -> Way), (true, Way::Zeroed)].into_iter().find_map(|(is_zeroed, way)| {
        let without = |keys: &[usize]| heads.context(row, &sums, |_, sums| sums.without(span, keys, is_zeroed));
        let keys = keys(heads, span, (&own, limit), &without)?;
        let values = held(without(&keys))?;
        Some((keys.into_iter().map(|key| way(Run::one(key))).collect(), values))
    })
}

/// Keys without which a row is the candidate's: the one that leaves least, then the next.
fn keys(
    heads: &Heads,
    span: Run,
    (own, limit): (&Array1<f64>, f64),
    without: &impl Fn(&[usize]) -> Array1<f64>,
) -> Option<Vec<usize>> {
    let mut keys: Vec<usize> = Vec::new();
    let mut left = f64::INFINITY;
    while keys.len() < KEYS.min(span.len() - 1) {
        let others: Vec<usize> = (span.from..span.to).filter(|key| !keys.contains(key)).collect();
        let with = |key: &usize| without(&[&keys[..], &[*key]].concat());
        let off = distances(heads, others.iter().map(with), own)?;
        let finite = off.into_iter().enumerate().filter(|(_, off)| off.is_finite());
        let (nearest, least) = finite.min_by(|a, b| a.1.total_cmp(&b.1))?;
        if least > NEARER * left {
            return None;
        }
        left = least;
        keys.push(others[nearest]);
        if least <= limit {
            return Some(keys);
        }
    }
    None
}

/// How far some columns of a row are from what contexts make of them.
fn distances(heads: &Heads, mut contexts: impl Iterator<Item = Array1<f64>>, own: &Array1<f64>) -> Option<Vec<f64>> {
    let mut off = Vec::new();
    loop {
        let some: Vec<Array1<f64>> = contexts.by_ref().take(TOGETHER).collect();
        if some.is_empty() {
            return Some(off);
        }
        let views: Vec<ArrayView1<'_, f64>> = some.iter().map(|of| of.view()).collect();
        let outputs = heads.some_outputs(&stack(Axis(0), &views).ok()?);
        off.extend(outputs.rows().into_iter().map(|values| size(&(&values - own))));
    }
}

fn distance(row: usize, values: ArrayView1<'_, f64>, bench: &Bench<'_, '_>) -> f64 {
    size(&(&values - &bench.candidate.row(row)))
}

fn size(x: &Array1<f64>) -> f64 {
    x.dot(x).sqrt()
}
