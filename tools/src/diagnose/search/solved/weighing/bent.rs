//! Numbers that bend how keys are weighed, the same for all tokens: solved for by the Gauss–Newton method.
//!
//! ```text
//! o = b·μ        μ = Σⱼ pⱼ·vⱼ        pⱼ ∝ exp(a·sⱼ − m·δⱼ)·(1 + e(sⱼ − s))
//! ∂o = b·Σⱼ ∂(log pⱼ)·pⱼ·(vⱼ − μ) + ∂b·μ
//! ```
//!
//! with sⱼ a key's score, s the largest, δⱼ its distance in tokens, vⱼ \[d\] its value: a and b say how many times as large keys
//! and values of a head are read, or the scores of a query, m by how much scores fall with distance, e by what share an exponential is off at its argument.
//! Right are a = b = 1 and m = e = 0.

use std::f64::consts::LOG2_E;

use ndarray::{Array1, Array2, Axis, s};

use super::heads::Heads;
use super::softmax::{Sums, joined};
use super::way::Run;
use super::ways::{COARSE, LEFT};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;
use crate::diagnose::search::solved::{factors, least_squares};

/// Steps: each doubles the digits where little is left in the end, from no bend at all on.
const STEPS: usize = 12;

/// Places between which an exponential's error is a straight line, and how far apart they are: from an argument of 0 down to
/// where a key counts for e⁻¹⁰.
const PLACES: usize = 10;
const APART: f64 = 1.0;

/// Places of the binary logarithm's fraction, by which an exponential that is put together of bits is off.
const FRACTIONS: usize = 8;

/// Numbers at most: equations of more take seconds.
const MOST: usize = 128;

/// By how much a number moves at most in the last step, if its deviation is less.
const STILL: f64 = 1e-9;

/// How many standard deviations a number is from none that is told.
const CERTAIN: f64 = 8.0;

/// Equations for each number, at least: as many as it takes are left to hold the numbers to.
const EQUATIONS: usize = 2;

/// How far from 1 the product of a key head's factors may be, at least and at most, where they are each other's reciprocal.
const RECIPROCAL: [f64; 2] = [1e-3, 1e-2];

/// What a number's derivatives have of the largest one's squares, at least, to be known.
const UNKNOWN: f64 = 1e-9;

/// What bends.
#[derive(Debug, Clone, Copy)]
enum Bend {
    /// m of each head.
    Slopes,
    /// a − 1 of each key head, then b − 1.
    Scales,
    /// a − 1 of each token's query.
    Queries,
    /// e at each place.
    Exponential,
    /// e at each fraction of the argument's binary logarithm.
    Bits,
}

/// The bend of fewest numbers under which some rows are the candidate's.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    [Bend::Scales, Bend::Slopes, Bend::Queries, Bend::Exponential, Bend::Bits]
        .into_iter()
        .find_map(|bend| bend.solve(heads, rows, bench))
}

impl Bend {
    fn count(self, heads: &Heads) -> usize {
        match self {
            Bend::Slopes => heads.count,
            Bend::Scales => 2 * heads.groups,
            Bend::Queries => heads.spans.len(),
            Bend::Exponential => PLACES,
            Bend::Bits => FRACTIONS - 1,
        }
    }

    fn solve(self, heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
        let count = self.count(heads);
        if count > MOST {
            return None;
        }
        let ideal: f64 = rows.iter().map(|row| squares(&(&bench.candidate.row(*row) - &bench.ideal.row(*row)))).sum();
        let noise: f64 = rows.iter().map(|row| bench.noise(*row).powi(2)).sum();
        let limit = noise.clamp(LEFT * LEFT * ideal, COARSE * COARSE * ideal);
        let mut numbers = vec![0.0; count];
        for step in 0..STEPS {
            let (mut apart, mut columns) = (Vec::new(), Vec::new());
            let mut values = bench.ideal.clone();
            for &row in rows {
                let (context, derivatives) = self.at(heads, row, &numbers);
                let output = heads.output(context.view());
                apart.extend(&bench.candidate.row(row) - &output);
                values.row_mut(row).assign(&output);
                columns.extend(heads.changes(&derivatives).reversed_axes().iter().copied());
            }
            if apart.len() < EQUATIONS * count {
                return None;
            }
            let columns = Array2::from_shape_vec((apart.len(), count), columns).ok()?;
            let apart = Array1::from(apart);
            let solution = some(&columns, &apart);
            // A step more where it is near, for the last digits.
            if let (true, Some(last)) = (step > 0 && squares(&apart) <= limit, &solution) {
                let is_still = |(x, deviation): (&f64, &f64)| x.abs() <= deviation.max(STILL);
                if step + 1 == STEPS || last.x.iter().zip(&last.deviation).all(is_still) {
                    let said = self.told(&numbers, &last.deviation)?;
                    // Straight lines come near what is curved, and make none of its bits.
                    let is_exact = matches!(self, Bend::Slopes | Bend::Scales | Bend::Queries);
                    let solution = || Solution::new(vec![said.clone()], values);
                    return Some(if is_exact { solution() } else { Solution::without_values(said) });
                }
            }
            numbers.iter_mut().zip(solution?.x).for_each(|(number, by)| *number += by);
        }
        None
    }

    /// A token's context, and its derivatives by each number \[numbers, columns\].
    fn at(self, heads: &Heads, row: usize, numbers: &[f64]) -> (Array1<f64>, Array2<f64>) {
        let span = heads.spans[row];
        let mut derivatives = Array2::zeros((numbers.len(), heads.count * heads.d));
        let mut contexts = Vec::with_capacity(heads.count);
        for (head, sums) in heads.sums(row).iter().enumerate() {
            let group = heads.group(head);
            let (scores, along) = self.bent(sums, (span, row, head, group), numbers);
            let (mean, weights) = sums.weighed(span, &scores);
            let times = if matches!(self, Bend::Scales) { 1.0 + numbers[heads.groups + group] } else { 1.0 };
            for (number, by) in along {
                let moved = sums.moved(span, &mean, &(&by.slice(s![span.from..span.to]) * &weights));
                derivatives.slice_mut(s![number, heads.columns(head)]).assign(&(times * &moved));
            }
            if matches!(self, Bend::Scales) {
                derivatives.slice_mut(s![heads.groups + group, heads.columns(head)]).assign(&mean);
            }
            contexts.push(times * mean);
        }
        (joined(&contexts), derivatives)
    }

    /// The logarithms of what keys count in a head, and their derivatives by the numbers that they depend on.
    fn bent(
        self,
        sums: &Sums,
        (span, row, head, group): (Run, usize, usize, usize),
        numbers: &[f64],
    ) -> (Array1<f64>, Vec<(usize, Array1<f64>)>) {
        let scores = sums.scores();
        match self {
            Bend::Slopes => {
                let distance = |(j, _): (usize, &f64)| row.abs_diff(j) as f64;
                let distances: Array1<f64> = scores.indexed_iter().map(distance).collect();
                (scores - &(numbers[head] * &distances), vec![(head, -distances)])
            }
            Bend::Scales => ((1.0 + numbers[group]) * scores, vec![(group, scores.clone())]),
            Bend::Queries => ((1.0 + numbers[row]) * scores, vec![(row, scores.clone())]),
            Bend::Exponential | Bend::Bits => {
                let largest = scores.slice(s![span.from..span.to]).fold(f64::NEG_INFINITY, |a, b| f64::max(a, *b));
                let shares = scores.mapv(|score| self.share(score - largest));
                let of = |number: usize| -> Array1<f64> {
                    shares
                        .iter()
                        .map(|each| each.iter().filter(|(at, _)| *at == number).map(|(_, of)| of).sum())
                        .collect()
                };
                let each: Vec<Array1<f64>> = (0..numbers.len()).map(of).collect();
                let mut error = Array1::<f64>::ones(scores.len());
                each.iter().zip(numbers).for_each(|(of, number)| error.scaled_add(*number, of));
                error.mapv_inplace(|error| error.max(f64::EPSILON));
                let along = each.into_iter().enumerate().map(|(number, of)| (number, &of / &error)).collect();
                (scores + &error.mapv(f64::ln), along)
            }
        }
    }

    /// The numbers whose straight line an argument is on, and what each counts.
    fn share(self, argument: f64) -> [(usize, f64); 2] {
        let place = match self {
            Bend::Bits => (argument * LOG2_E).rem_euclid(1.0) * FRACTIONS as f64,
            _ => (-argument / APART).clamp(0.0, PLACES as f64),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the number of places")]
        let first = place as usize;
        let beyond = place - first as f64;
        // There is none at an argument of 0: what all exponentials have in common is no matter.
        let number = |at: usize| {
            let at = if matches!(self, Bend::Bits) { at % FRACTIONS } else { at.min(PLACES) };
            at.wrapping_sub(1)
        };
        [(number(first), 1.0 - beyond), (number(first + 1), beyond)]
    }

    fn told(self, numbers: &[f64], deviations: &[f64]) -> Option<String> {
        let listed =
            |numbers: &[f64]| numbers.iter().map(|number| format!("{number:.4}")).collect::<Vec<_>>().join(", ");
        // What is known of each is for itself: few keys have the least arguments.
        let is_certain = |(i, x): &(usize, &f64)| x.abs() > CERTAIN * deviations[*i];
        let certain = numbers.iter().enumerate().filter(is_certain);
        let most = certain.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let largest = deviations.iter().copied().fold(0.0, f64::max);
        Some(match self {
            Bend::Slopes => format!("scores fall with each token of distance, in its heads by {}", listed(numbers)),
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

/// The numbers that some value depends on; the others are none.
fn some(columns: &Array2<f64>, apart: &Array1<f64>) -> Option<least_squares::Solution> {
    let sizes: Vec<f64> = columns.columns().into_iter().map(|column| column.dot(&column)).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let known: Vec<usize> = (0..sizes.len()).filter(|i| sizes[*i] > UNKNOWN * largest).collect();
    let found = least_squares::solve(columns.select(Axis(1), &known).view(), apart.view())?;
    let mut all = least_squares::Solution { x: vec![0.0; sizes.len()], deviation: vec![0.0; sizes.len()], ..found };
    for (i, number) in known.into_iter().enumerate() {
        (all.x[number], all.deviation[number]) = (found.x[i], found.deviation[i]);
    }
    Some(all)
}

fn squares(x: &Array1<f64>) -> f64 {
    x.dot(x)
}
