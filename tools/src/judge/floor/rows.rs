//! How far rows stray, one with another.
//!
//! Where rounding decides choices of experts that the candidate does not show, a few rows of each run stray a hundred times as far as
//! the rest, and a limit of what all values do together is above the signal: anything is within it. The rows in the middle are not
//! concerned, so runs hardly differ in how far these stray.
//!
//! ```text
//! r(run, row)   the root of the mean square of a row's deviations; at least a quarter of the distance of neighbours
//! s(row)        what is typical of the row: the median of the other runs' r
//! q(run)        the quantile of r / s over the rows, which is close to log-normal over the runs, and the candidate is the next
//! ```

use ndarray::Array2;

use super::prediction::{Prediction, over};

/// The shares of rows that are looked at: rows that choices make others may be many, and rows that a mistake makes others may be few.
const SHARES: [f64; 4] = [1.0 / 4.0, 1.0 / 2.0, 3.0 / 4.0, 7.0 / 8.0];

/// How many times as far as runs do an implementation strays, at least, that is further off than any rounding: one may round at four
/// times as many places as are known.
const MORE: f64 = 2.0;

/// What the runs say of rows.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    /// What is typical of each.
    scale: Vec<f64>,
    /// What each quantile of the scaled rows stays below.
    limits: [f64; SHARES.len()],
}

/// What is known of a row.
pub(super) struct OfRuns {
    /// How far each run strays from the truth, as a root mean square.
    pub(super) strayed: Vec<f64>,
    /// How far they are taken to stray at least; above 0.
    pub(super) least: f64,
}

/// A quantile of a candidate's rows beside its limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Further {
    /// The share of rows that are no further off.
    pub(crate) share: f64,
    /// How far that is, in units of the limit.
    pub(crate) ratio: f64,
}

impl Rows {
    /// Of how far runs strayed in each row.
    pub(super) fn of(rows: &[OfRuns]) -> Self {
        let count = rows.first().map_or(0, |row| row.strayed.len());
        let scaled =
            |run: usize| rows.iter().map(|row| row.strayed[run].max(row.least) / row.typical(Some(run))).collect();
        let runs: Vec<_> = (0..count).map(|run| quantiles(scaled(run))).collect();
        let limits = std::array::from_fn(|share| {
            let prediction = Prediction::of(runs.iter().map(|quantiles| quantiles[share]));
            prediction.limit.max(MORE * prediction.mean.exp())
        });
        Rows { scale: rows.iter().map(|row| row.typical(None)).collect(), limits }
    }

    /// The quantile of a candidate's deviations that is furthest above its limit, or nearest to it.
    pub(super) fn furthest(&self, deviation: &Array2<f64>) -> Further {
        let each = deviation.rows().into_iter().zip(&self.scale);
        let scaled = each.map(|(row, scale)| root_mean_square(row.iter().copied()) / scale);
        let own = quantiles(scaled.map(|off| if off.is_nan() { f64::INFINITY } else { off }).collect());
        let beside = own.into_iter().zip(self.limits).zip(SHARES);
        let beside = beside.map(|((own, limit), share)| Further { share, ratio: over(own, limit) });
        beside.reduce(|most, next| if next.ratio > most.ratio { next } else { most }).expect("there are shares")
    }
}

impl Further {
    /// The same in words.
    pub(crate) fn told(&self) -> String {
        let (off, ratio) = (100.0 * (1.0 - self.share), self.ratio);
        format!(
            "no value stands out, but {off:.0} % of rows are {ratio:.1} times the noise limit of so many, or further"
        )
    }
}

impl OfRuns {
    /// How far runs stray that are in the middle, without one of them.
    fn typical(&self, without: Option<usize>) -> f64 {
        let others = self.strayed.iter().enumerate().filter(|(run, _)| Some(*run) != without);
        let mut others: Vec<f64> = others.map(|(_, strayed)| *strayed).collect();
        others.sort_by(f64::total_cmp);
        at_share(&others, 1.0 / 2.0).max(self.least)
    }
}

/// √(Σ x² / n); NaN if one is.
pub(super) fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0_usize, 0.0), |(count, sum), x| (count + 1, sum + x * x));
    (sum / count.max(1) as f64).sqrt()
}

/// Those of these numbers; 0 of none.
fn quantiles(mut all: Vec<f64>) -> [f64; SHARES.len()] {
    all.sort_by(f64::total_cmp);
    SHARES.map(|share| at_share(&all, share))
}

/// The one of sorted numbers that this share of them is not above.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index, and not below 0")]
fn at_share(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share).ceil() as usize).max(1) - 1;
    sorted.get(index).copied().unwrap_or(0.0)
}
