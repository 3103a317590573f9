//! Numbers that bend how keys are weighed, the same for all tokens: solved for by the Gauss–Newton method.
//!
//! ```text
//! o = b·μ        μ = Σⱼ pⱼ·vⱼ        pⱼ ∝ exp(a·sⱼ − m·δⱼ + nⱼ)·(1 + e(sⱼ − s))
//! ∂o = b·Σⱼ ∂(log pⱼ)·pⱼ·(vⱼ − μ) + ∂b·μ
//! ```
//!
//! with sⱼ a key's score, s the largest, δⱼ its distance in tokens, vⱼ \[d\] its value: a and b say how many times as large keys
//! and values of a head are read, or the scores of a query or a query head, m by how much scores fall with distance, n what those
//! of a key or at a distance have more, e by what share an exponential is off at its argument.
//! Right are a = b = 1 and m = n = e = 0. [`told`] has what is said of them.

mod told;

use std::collections::BTreeMap;
use std::f64::consts::LOG2_E;

use ndarray::{Array1, Array2, Axis, s};

use super::heads::Heads;
use super::softmax::{Sums, joined};
use super::way::Run;
use super::ways::{COARSE, EQUATIONS, LEFT};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::least_squares;
use crate::diagnose::search::solved::solution::Solution;

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

/// What a number's derivatives have of the largest one's squares, at least, to be known.
const UNKNOWN: f64 = 1e-9;

/// What bends.
#[derive(Debug, Clone, Copy)]
enum Bend {
    /// m of each head.
    Slopes,
    /// a − 1 of each key head, then b − 1.
    Scales,
    /// a − 1 of each query head.
    Heads,
    /// a − 1 of each token's query.
    Queries,
    /// n of each key behind the first.
    Keys,
    /// n of each distance from 1 on.
    Distances,
    /// e at each place.
    Exponential,
    /// e at each fraction of the argument's binary logarithm.
    Bits,
}

/// The bend of fewest numbers under which some rows are the candidate's.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let plain = [Bend::Scales, Bend::Slopes, Bend::Heads, Bend::Queries, Bend::Exponential, Bend::Bits];
    plain.into_iter().chain([Bend::Keys, Bend::Distances]).find_map(|bend| bend.solve(heads, rows, bench))
}

impl Bend {
    fn count(self, heads: &Heads) -> usize {
        match self {
            Bend::Slopes | Bend::Heads => heads.count,
            Bend::Scales => 2 * heads.groups,
            Bend::Queries => heads.spans.len(),
            Bend::Keys | Bend::Distances => heads.spans.len().saturating_sub(1),
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
                    let is_exact = !matches!(self, Bend::Exponential | Bend::Bits);
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
            Bend::Heads => ((1.0 + numbers[head]) * scores, vec![(head, scores.clone())]),
            Bend::Queries => ((1.0 + numbers[row]) * scores, vec![(row, scores.clone())]),
            Bend::Keys | Bend::Distances => {
                let mut more = scores.clone();
                let mut along: BTreeMap<usize, Array1<f64>> = BTreeMap::new();
                for key in span.from..span.to {
                    let place = if matches!(self, Bend::Keys) { key } else { row.abs_diff(key) };
                    // What all keys have more changes nothing: the first has nothing.
                    let Some(number) = place.checked_sub(1) else { continue };
                    more[key] += numbers[number];
                    along.entry(number).or_insert_with(|| Array1::zeros(scores.len()))[key] = 1.0;
                }
                (more, along.into_iter().collect())
            }
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
