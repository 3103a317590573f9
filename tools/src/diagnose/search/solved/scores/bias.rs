//! What scores are multiplied by, or have added to them: a number of each query or head, by distance, or of each key.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{Row, Rows, moved};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::factors;
use crate::diagnose::search::solved::solution::Solution;

/// Equations for each number, at least.
const EQUATIONS: usize = 2;

/// How often numbers that several rows share are made the mean of what is left, one after the other.
const ROUNDS: usize = 80;

/// Equations that are solved: some seconds' worth.
const MOST: usize = 1 << 18;

/// How far factors may be apart to be the same.
const SAME: f64 = 1e-3;

/// What all of them have in common.
#[derive(Debug, Clone, Copy)]
enum Bias {
    /// A factor of each query's scores.
    Queries,
    /// A factor of each head's.
    Heads,
    /// So much less with each token of distance, by head.
    Slopes,
    /// A number of each distance, the same in all heads.
    Distances,
    /// A number of each distance in each head.
    DistancesOfHeads,
    /// A number of each key, the same in all heads.
    Keys,
}

/// The first under which rows are the candidate's.
pub(super) fn solve(rows: &Rows, bench: &Bench<'_, '_>) -> Option<Solution> {
    let all = [Bias::Heads, Bias::Slopes, Bias::Queries, Bias::Keys, Bias::Distances, Bias::DistancesOfHeads];
    all.into_iter().find_map(|bias| bias.solve(rows, bench))
}

impl Bias {
    /// The number that a key's score depends on in a row, and by how much it is moved by that, from the logarithm of its
    /// right probability.
    fn along(self, row: Row, key: usize, log: f64, keys: usize) -> (usize, f64) {
        let distance = row.token.abs_diff(key);
        match self {
            Bias::Queries => (row.token, log),
            Bias::Heads => (row.head, log),
            Bias::Slopes => (row.head, -(distance as f64)),
            Bias::Distances => (distance, 1.0),
            Bias::DistancesOfHeads => (row.head * keys + distance, 1.0),
            Bias::Keys => (key, 1.0),
        }
    }

    fn solve(self, rows: &Rows, bench: &Bench<'_, '_>) -> Option<Solution> {
        let numbers = self.numbers(rows, bench)?;
        let keys = bench.candidate.ncols();
        let values = rows.held(
            |row| {
                moved(row, bench, |key, log| {
                    let (number, along) = self.along(row, key, log, keys);
                    numbers.get(&number).copied().unwrap_or(0.0) * along
                })
            },
            bench,
        )?;
        let solution = Solution::new(vec![self.told(&numbers, keys)?], values);
        solution.is_more(bench).then_some(solution)
    }

    /// By least squares, beside a number of each row.
    fn numbers(self, rows: &Rows, bench: &Bench<'_, '_>) -> Option<BTreeMap<usize, f64>> {
        let keys = bench.candidate.ncols();
        let some = rows.off.iter().step_by((rows.off.len() * keys).div_ceil(MOST).max(1));
        let equations: Vec<Vec<(usize, f64, f64)>> = some
            .map(|row| {
                let of = Rows::logs(*row, bench).into_iter().map(|(key, log, more)| {
                    let (number, along) = self.along(*row, key, log, keys);
                    (number, along, more)
                });
                of.collect()
            })
            .collect();
        let all: BTreeSet<usize> = equations.iter().flatten().map(|(number, ..)| *number).collect();
        let count: usize = equations.iter().map(Vec::len).sum();
        let end = all.last()? + 1;
        if count < EQUATIONS * (all.len() + equations.len()) {
            return None;
        }
        let is_of_row = matches!(self, Bias::Queries | Bias::Heads | Bias::Slopes);
        let mut numbers = vec![0.0; end];
        for _ in 0..if is_of_row { 1 } else { ROUNDS } {
            let mut sums = vec![[0.0; 2]; end];
            for of in &equations {
                let n = of.len().max(1) as f64;
                let rest = |(number, along, more): &(usize, f64, f64)| more - numbers[*number] * along;
                let mean = of.iter().map(rest).sum::<f64>() / n;
                let mean_along = if is_of_row { of.iter().map(|(_, along, _)| along).sum::<f64>() / n } else { 0.0 };
                for equation in of {
                    let along = equation.1 - mean_along;
                    sums[equation.0][0] += along * along;
                    sums[equation.0][1] += along * (rest(equation) - mean);
                }
            }
            let moved = numbers.iter_mut().zip(sums).filter(|(_, [size, _])| *size > 0.0);
            moved.for_each(|(number, [size, product])| *number += product / size);
        }
        Some(all.into_iter().map(|number| (number, numbers[number])).collect())
    }

    fn told(self, numbers: &BTreeMap<usize, f64>, keys: usize) -> Option<String> {
        let most = numbers.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        Some(match self {
            Bias::Queries => factors::of_queries(numbers)?,
            Bias::Heads => factors::of_heads(numbers),
            Bias::Slopes => {
                let each = numbers.values().map(|slope| format!("{slope:.4}"));
                format!(
                    "scores fall with each token of distance, in its heads by {}",
                    each.collect::<Vec<_>>().join(", ")
                )
            }
            Bias::Distances => factors::of_distances(numbers)?,
            Bias::DistancesOfHeads => {
                format!(
                    "scores have a number of each distance more, by head: most at a distance of {} in head {}",
                    most.0 % keys,
                    most.0 / keys
                )
            }
            Bias::Keys => factors::of_keys(numbers, SAME)?,
        })
    }
}
