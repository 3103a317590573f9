//! Factors by which scores are multiplied, of queries, whose rule is looked for, or of heads, and numbers that they have more, of keys
//! or distances.

use std::collections::BTreeMap;

use ndarray::{Array1, Axis, stack};

use super::least_squares;
use super::listed::listed;

/// What may be left of the factors' squares about their mean where they follow a logarithm.
const FOLLOWS: f64 = 1e-3;

/// How far factors may be apart to be the same.
const SAME: f64 = 1e-3;

/// What is said of factors, less 1, by token.
pub(super) fn of_queries(numbers: &BTreeMap<usize, f64>) -> Option<String> {
    let (first, last) = (numbers.iter().next()?, numbers.iter().next_back()?);
    let all: Vec<f64> = numbers.values().copied().collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let (least, most) = all.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
    if most - least <= SAME {
        return Some(format!("scores are multiplied by {:.4}", 1.0 + mean));
    }
    let range = format!(
        "scores are multiplied by a factor of each query: {:.4} at token {}, {:.4} at token {}",
        1.0 + first.1,
        first.0,
        1.0 + last.1,
        last.0
    );
    Some(match logarithm(numbers) {
        Some(rule) => format!("{range}, {rule}"),
        None => range,
    })
}

/// 1 + β·ln((t + o)/m) of positions t, where factors follow one, counted from 0 or 1.
fn logarithm(numbers: &BTreeMap<usize, f64>) -> Option<String> {
    let y: Array1<f64> = numbers.values().copied().collect();
    let about = y.mean().map(|mean| y.mapv(|y| (y - mean).powi(2)).sum())?;
    let fits = [0.0, 1.0].into_iter().filter_map(|from| {
        let x: Array1<f64> = numbers.keys().map(|token| (*token as f64 + from).ln()).collect();
        let ones = Array1::ones(x.len());
        let columns = stack(Axis(1), &[x.view(), ones.view()]).ok()?;
        let fit = least_squares::solve(columns.view(), y.view())?;
        Some((fit.left * y.dot(&y) / about, from, fit.x[0], fit.x[1]))
    });
    let (left, from, beta, rest) = fits.filter(|fit| fit.0.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let place = if from > 0.0 { "(t + 1)" } else { "t" };
    (left <= FOLLOWS).then(|| format!("1 + {beta:.4}·ln({place}/{:.2}) at position t", (-rest / beta).exp()))
}

/// What is said of factors, less 1, by head: of those of which they are not 1.
pub(super) fn of_heads(numbers: &BTreeMap<usize, f64>) -> String {
    let off = numbers.iter().filter(|(_, more)| more.abs() > SAME);
    let each = off.map(|(head, more)| format!("{:.4} in head {head}", 1.0 + more));
    format!("scores are multiplied by a factor of each head: {}", listed(each))
}

/// What is said of numbers that the scores of keys have more; those are none that are the same as most, and of none nothing is
/// said.
pub(super) fn of_keys(numbers: &BTreeMap<usize, f64>, same: f64) -> Option<String> {
    // A number that all have more changes nothing: that of most is taken for none.
    let mut sorted: Vec<f64> = numbers.values().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted[sorted.len() / 2];
    let off = numbers.iter().filter(|(_, more)| (**more - middle).abs() > same);
    let each: Vec<String> = off.map(|(key, more)| format!("key {key} {:+.4}", more - middle)).collect();
    let (count, is_none) = (each.len(), each.is_empty());
    let said =
        format!("the scores of {count} keys have a number of each key more, whatever the query: {}", listed(each));
    (!is_none).then_some(said)
}

/// What is said of numbers that scores have more at each distance, beside that of the token itself.
pub(super) fn of_distances(numbers: &BTreeMap<usize, f64>) -> Option<String> {
    let own = numbers.values().next()?;
    let (at, most) = numbers.iter().max_by(|a, b| (a.1 - own).abs().total_cmp(&(b.1 - own).abs()))?;
    let each = numbers.iter().skip(1).map(|(distance, more)| format!("{:+.4} at {distance}", more - own));
    let each = format!("{}; most, {:+.4}, at {at}", listed(each), most - own);
    Some(format!("scores have a number of each distance more, in all heads: {each}"))
}
