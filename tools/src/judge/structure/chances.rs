//! How probable it is that a right candidate is as far from its twin as it is.

use serde::{Deserialize, Serialize};
use statrs::distribution::{DiscreteCDF, NegativeBinomial};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::gamma_ur;

use super::tally::Part;

/// How many times what any run in another order has is large: sums whose errors are three times those that are drawn carry
/// three times as many values to a neighbour.
pub(super) const LARGE: f64 = 3.0;

/// Runs in other orders by which structure is told from chance: nine tokens of an expert are enough then.
pub(crate) const REPLAYS: u64 = 11;

/// For each row, how probable it is that one of its runs in other orders is as far as the candidate, which is the first: the share of
/// all of these, of all rows, that are as far among their own.
pub(super) fn furthest(rows: &[Vec<Part>], far: impl Fn(&Part, &[&Part]) -> f64) -> Vec<f64> {
    let of = |row: &[Part], run: usize| {
        let others: Vec<&Part> =
            row.iter().enumerate().skip(1).filter(|(other, _)| *other != run).map(|(_, part)| part).collect();
        far(&row[run], &others)
    };
    let mut all: Vec<f64> = rows.iter().flat_map(|row| (1..row.len()).map(|run| of(row, run))).collect();
    all.sort_by(f64::total_cmp);
    let as_far = |far: f64| all.len() - all.partition_point(|other| *other < far);
    rows.iter().map(|row| (1.0 + as_far(of(row, 0)) as f64) / (1.0 + all.len() as f64)).collect()
}

/// Of independent probabilities, that they are together as small (Fisher).
pub(crate) fn together(chances: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = chances.fold((0_u32, 0.0), |(count, sum), chance| (count + 1, sum - chance.ln()));
    if sum > 0.0 { gamma_ur(f64::from(count), sum) } else { 1.0 }
}

/// The probability that rows have no gain in common, where the runs do not say how far they go, but they themselves do. Of what is
/// apart without a direction, a norm behind it leaves values shorter by half of its square along the twin's, and nothing as long
/// without one: a gain is neither.
pub(super) fn common(rows: &[Part]) -> f64 {
    let total = Part::sum(rows.iter());
    if total.gain() * total.growth() <= 0.0 {
        return 1.0;
    }
    let [gains, growths] =
        [Part::gain, Part::growth].map(|of| directed(&rows.iter().copied().map(of).collect::<Vec<f64>>()));
    gains.max(growths)
}

/// The probability that figures whose mean is 0 have one as far from it, as they scatter (Student's t on both sides).
fn directed(figures: &[f64]) -> f64 {
    let freedom = figures.len() as f64 - 1.0;
    let (sum, squares) = figures.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if freedom < 1.0 || squares == 0.0 {
        return 1.0;
    }
    // P(|T| ≥ t) = I(ν / (ν + t²); ν/2, 1/2), and ν / (ν + t²) is the share of the squares that the mean leaves.
    let left = 1.0 - sum * sum / (figures.len() as f64 * squares);
    beta_reg(freedom / 2.0, 0.5, left.clamp(0.0, 1.0))
}

/// P(at least so many of n), each with probability p.
pub(super) fn at_least(times: usize, n: usize, p: f64) -> f64 {
    if times == 0 { 1.0 } else { beta_reg(times as f64, (n - times + 1) as f64, p) }
}

/// The probability of at least so many of what runs that are like the next one had so many of. The number is Poisson's: by
/// Jeffreys' prior on its mean the next one is negative binomial, of N + 1/2 and n/(n + 1).
pub(crate) fn next_has(times: usize, seen: usize, runs: usize) -> f64 {
    let runs = runs as f64;
    let next = NegativeBinomial::new(seen as f64 + 0.5, runs / (runs + 1.0)).expect("both are positive");
    if times == 0 { 1.0 } else { next.sf(times as u64 - 1) }
}

/// Whether so many values are many more than any run in another order has.
pub(super) fn is_large(unequal: usize, runs: &[usize]) -> bool {
    unequal as f64 > LARGE * runs.iter().copied().max().unwrap_or(0) as f64
}

/// Keys and values that are others in a run, which tokens read of one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keys {
    /// How many the candidate has at least, by how many of its values are not the twin's.
    least: usize,
    /// How many the runs in other orders have together.
    seen: usize,
    /// How many runs these are.
    runs: usize,
}

impl Keys {
    /// By how many values of the candidate and of each run are not the twin's, and how many keys of each run. One key is not taken
    /// to move more than three times the values that each does in any run, as far as there are so many to tell: what moves values
    /// beyond what any run has is one where none was seen, and no more than were.
    pub(super) fn of(unequal: usize, runs: &[usize], others: &[usize]) -> Self {
        let seen = others.iter().sum();
        let told = runs.iter().zip(others).filter(|(_, others)| **others > 0);
        let most = told.map(|(unequal, others)| (*unequal).max(1) as f64 / *others as f64).fold(0.0, f64::max);
        let needed = (1..=seen).take_while(|keys| *keys as f64 * LARGE * most <= unequal as f64).count();
        Keys { least: needed.max(usize::from(is_large(unequal, runs))), seen, runs: others.len() }
    }

    /// The probability of so many.
    pub(crate) fn chance(self) -> f64 {
        next_has(self.least, self.seen, self.runs)
    }

    /// Those of several sites, which as many runs went through.
    pub(crate) fn together(all: impl Iterator<Item = Keys>) -> Option<Keys> {
        all.reduce(|sum, keys| Keys { least: sum.least + keys.least, seen: sum.seen + keys.seen, ..keys })
    }
}

/// How many rows reach a probability of false suspicion where a gain makes each the furthest of all.
pub(crate) fn rows_needed(limit: f64) -> usize {
    let least = |rows: usize| {
        let furthest = 1.0 / (1.0 + (rows as u64 * REPLAYS) as f64);
        2.0 * together(std::iter::repeat_n(furthest, rows))
    };
    let mut rows = 1;
    while least(rows) > limit {
        rows += 1;
    }
    rows
}
