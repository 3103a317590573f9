//! What is said of numbers that bend attention.

use std::collections::BTreeMap;

use super::{APART, Bend};
use crate::diagnose::search::solved::factors;

/// How many standard deviations a number is from none that is told.
const CERTAIN: f64 = 8.0;

/// How far numbers of keys may be apart to be the same, at least.
const SAME: f64 = 1e-3;

/// How far from 1 the product of a key head's factors may be, at least and at most, where they are each other's reciprocal.
const RECIPROCAL: [f64; 2] = [1e-3, 1e-2];

impl Bend {
    /// A sentence, where some number is certain.
    pub(super) fn told(self, numbers: &[f64], deviations: &[f64]) -> Option<String> {
        let listed =
            |numbers: &[f64]| numbers.iter().map(|number| format!("{number:.4}")).collect::<Vec<_>>().join(", ");
        // What is known of each is for itself: few keys have the least arguments.
        let is_certain = |(i, x): &(usize, &f64)| x.abs() > CERTAIN * deviations[*i];
        let certain = numbers.iter().enumerate().filter(is_certain);
        let most = certain.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let largest = deviations.iter().copied().fold(0.0, f64::max);
        Some(match self {
            Bend::Slopes => format!("scores fall with each token of distance, in its heads by {}", listed(numbers)),
            Bend::Heads => factors::of_heads(&numbers.iter().copied().enumerate().collect()),
            Bend::Keys => factors::of_keys(&behind_first(numbers, deviations), SAME.max(CERTAIN * largest))?,
            Bend::Distances => factors::of_distances(&behind_first(numbers, deviations))?,
            Bend::Queries => {
                let known = numbers.iter().copied().enumerate().filter(|(i, _)| deviations[*i] > 0.0);
                factors::of_queries(&known.collect())?
            }
            Bend::Scales => {
                let (keys, values) = numbers.split_at(numbers.len() / 2);
                let factors = |of: &[f64]| listed(&of.iter().map(|x| 1.0 + x).collect::<Vec<_>>());
                let same = (CERTAIN * largest).clamp(RECIPROCAL[0], RECIPROCAL[1]);
                let inverse = keys.iter().zip(values).all(|(k, v)| ((1.0 + k) * (1.0 + v) - 1.0).abs() <= same);
                let swapped =
                    if inverse { ", each the other's reciprocal, as where their scales are exchanged" } else { "" };
                format!(
                    "attention reads the keys of its key heads {} times as large, and their values {} times{swapped}",
                    factors(keys),
                    factors(values)
                )
            }
            Bend::Exponential => {
                let argument = -APART * (most.0 + 1) as f64;
                format!(
                    "the softmax's exponential is another function: off by {:.2} % at an argument of {argument:.1}, the \
                     furthest that is certain, beside that at 0",
                    100.0 * most.1
                )
            }
            Bend::Bits => {
                let (least, most) = numbers.iter().fold((0.0, 0.0), |(a, b): (f64, f64), x| (a.min(*x), b.max(*x)));
                format!(
                    "the softmax's exponential is put together of bits: by the fraction of its argument's binary logarithm it is \
                     off over a range of {:.2} %",
                    100.0 * (most - least)
                )
            }
        })
    }
}

/// The numbers that are known, and that of the first, which is none.
fn behind_first(numbers: &[f64], deviations: &[f64]) -> BTreeMap<usize, f64> {
    let known = numbers.iter().enumerate().filter(|(i, _)| deviations[*i] > 0.0);
    [(0, 0.0)].into_iter().chain(known.map(|(i, number)| (i + 1, *number))).collect()
}
