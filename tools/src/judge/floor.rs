//! The noise floor: how far correct implementations stray, measured.
//!
//! The reference is run several times with stochastic rounding at the candidate's rounding points. Each element's
//! deviation from the truth is scaled by what is typical there, and two figures of the result are taken: its largest
//! and its root mean square. Over the runs both are close to log-normal, so the next run stays, with a stated
//! probability, below the prediction limit of Student's t; the candidate is the next run. So does a third, how far the rows in
//! the middle stray.

mod prediction;
mod rows;

use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView1, Zip};
use reference::Storage;

pub(crate) use prediction::{MEMBERS, difference_limit};
use prediction::{Prediction, over};
pub(super) use rows::Further;
use rows::{OfRuns, Rows, root_mean_square};

/// Runs after which it shows what is far beyond any noise.
pub(super) const FEW: usize = 2;

/// How many times as far as each of a few runs strays nothing comes that rounding explains: over the limit unless runs differ
/// from one another by a factor of 1.6 in a standard deviation, where they do by tenths.
pub(super) const FAR: f64 = 100.0;

/// What the runs say of one site.
#[derive(Debug, Clone)]
pub(super) struct NoiseFloor {
    /// What is typical of each element; 0 of those that are masked, which are the truth's.
    scale: Array2<f64>,
    /// How many elements are not masked.
    count: usize,
    /// Of the largest scaled deviation, its logarithm.
    peak: Prediction,
    /// Of the root mean square of the scaled deviations, its logarithm.
    rms: Prediction,
    /// The largest ‖deviation‖ of a run.
    pub largest: f64,
    /// How far rows stray, one with another.
    rows: Rows,
}

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    /// Largest scaled deviation.
    pub peak: f64,
    /// Root mean square of the scaled deviations.
    pub rms: f64,
}

/// a − b; 0 where both are the same infinity.
pub(super) fn apart(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    Zip::from(a).and(b).map_collect(|a, b| difference(*a, *b))
}

fn difference(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { a - b }
}

/// How far the runs strayed from the truth at one site, each value in f32: of a deviation, that is seven digits.
#[derive(Debug, Clone, Default)]
pub(super) struct Strayed {
    /// A power of two that deviations are divided by, so that those of any values have room in an f32.
    unit: f64,
    runs: Vec<Array2<f32>>,
}

impl Strayed {
    /// How many runs there are.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Adds what a run computed.
    #[expect(clippy::cast_possible_truncation, reason = "the type that they are kept in")]
    pub(super) fn add(&mut self, value: &Array2<f64>, truth: &Array2<f64>) {
        if self.runs.is_empty() {
            let largest = truth.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
            self.unit = if largest < f64::MIN_POSITIVE { 1.0 } else { largest.log2().floor().exp2() };
        }
        let unit = self.unit;
        self.runs.push(Zip::from(value).and(truth).par_map_collect(|a, b| (difference(*a, *b) / unit) as f32));
    }

    /// The largest ‖deviation‖ of a run, of what is finite.
    pub(super) fn largest(&self) -> f64 {
        let square = |x: &f32| f64::from(*x) * f64::from(*x);
        let norm = |run: &Array2<f32>| run.iter().filter(|x| !x.is_infinite()).map(square).sum::<f64>().sqrt();
        self.unit * self.runs.iter().map(norm).fold(0.0, f64::max)
    }

    /// The squares of a row's deviations, run by run.
    fn squares(&self, row: usize) -> Vec<Vec<f64>> {
        let square = |x: &f32| (f64::from(*x) * self.unit).powi(2);
        self.runs.iter().map(|run| run.row(row).iter().map(square).collect()).collect()
    }
}

/// What a row gives to a floor.
struct OfRow {
    scale: Vec<f64>,
    /// Of each run, beside what is typical of the others: the largest scaled deviation squared, and the sum of the squares.
    figures: Vec<(f64, f64)>,
}

impl NoiseFloor {
    /// Of how far runs strayed from the truth, and the truth, as they are stored.
    pub(super) fn of(truth: &Array2<f64>, strayed: &Strayed, storage: Storage) -> Self {
        let (rows, columns) = truth.dim();
        let all: Vec<usize> = (0..rows).collect();
        let count = truth.iter().filter(|x| !x.is_infinite()).count();
        let sums =
            |row: &usize| -> Vec<f64> { strayed.squares(*row).iter().map(|run| run.iter().sum::<f64>()).collect() };
        let by_row: Vec<Vec<f64>> = all.par_iter().map(sums).collect();
        let sums: Vec<f64> = (0..strayed.count()).map(|run| by_row.iter().map(|sums| sums[run]).sum()).collect();
        let (all_of_it, without) = without_each(&sums);
        let whole = |sum: f64| WHOLE * sum / count as f64;
        let (all_of_it, without) = (whole(all_of_it), without.into_iter().map(whole).collect::<Vec<f64>>());
        let of_row = |row: &usize| OfRow::new(truth.row(*row), &strayed.squares(*row), (all_of_it, &without), storage);
        let of_rows: Vec<OfRow> = all.par_iter().map(of_row).collect();
        let figures: Vec<Figures> = (0..strayed.count())
            .map(|run| {
                let largest = of_rows.iter().map(|row| row.figures[run].0).fold(0.0, f64::max);
                let sum: f64 = of_rows.iter().map(|row| row.figures[run].1).sum();
                Figures { peak: largest.sqrt(), rms: (sum / count as f64).sqrt() }
            })
            .collect();
        let scale = of_rows.into_iter().flat_map(|row| row.scale).collect();
        NoiseFloor {
            scale: Array2::from_shape_vec((rows, columns), scale).expect("a scale for each value"),
            count,
            peak: Prediction::of(figures.iter().map(|f| f.peak)),
            rms: Prediction::of(figures.iter().map(|f| f.rms)),
            largest: sums.into_iter().map(f64::sqrt).fold(0.0, f64::max),
            rows: Rows::of(&row_by_row(truth, &by_row, storage)),
        }
    }

    /// The candidate's deviations in units of the limits: above 1 no correct candidate comes.
    pub(super) fn ratio(&self, deviation: &Array2<f64>) -> f64 {
        let figures = Figures::of(deviation, self);
        over(figures.peak, self.peak.limit).max(over(figures.rms, self.rms.limit))
    }

    /// The share of the candidate's rows that are furthest above their limit, or nearest to it.
    pub(super) fn rows_off(&self, deviation: &Array2<f64>) -> Further {
        self.rows.furthest(deviation)
    }

    /// The share of right implementations that stray less, by root mean square, as the runs predict it. A random rounding
    /// has twice the variance of one to nearest, which implementations do: E f(1 − f) = 1/6 against 1/12 of the distance
    /// of neighbours squared. What values were before they were saved is drawn from all that they may have been, which has the
    /// variance of a rounding to nearest itself: where they were, runs stray as far as implementations do, at least.
    pub(super) fn quantile(&self, deviation: &Array2<f64>, were_saved: bool) -> f64 {
        let further = if were_saved { 1.0 } else { std::f64::consts::SQRT_2 };
        let rms = Figures::of(deviation, self).rms * further;
        self.rms.share_below(rms)
    }

    /// ‖deviation‖ of a run that is just within the limits, its errors spread as is typical. Where that is more than
    /// the signal, any values of that size are, and all of them together say nothing.
    pub(super) fn limit(&self) -> f64 {
        let spread = self.scale.iter().map(|scale| scale * scale).sum::<f64>().sqrt();
        spread * self.rms.limit.min(self.peak.limit)
    }

    /// How far one element may be off.
    pub(super) fn bound(&self, at: (usize, usize)) -> f64 {
        self.scale[at] * self.peak.limit
    }
}

impl Figures {
    /// A deviation that is not a number, or that stands where none may be, is infinite.
    fn of(deviation: &Array2<f64>, floor: &NoiseFloor) -> Self {
        let (mut peak, mut sum) = (0.0_f64, 0.0);
        Zip::from(deviation).and(&floor.scale).for_each(|&d, &s| {
            let scaled = if d == 0.0 { 0.0 } else { (d / s).abs() };
            let scaled = if scaled.is_nan() { f64::INFINITY } else { scaled };
            peak = peak.max(scaled);
            sum += scaled * scaled;
        });
        Figures { peak, rms: (sum / floor.count as f64).sqrt() }
    }
}

/// Each row of the truth, and how far runs stray there, of these sums of squares.
fn row_by_row(truth: &Array2<f64>, sums: &[Vec<f64>], storage: Storage) -> Vec<OfRuns> {
    let of_row = |(row, sums): (ArrayView1<'_, f64>, &Vec<f64>)| {
        let finite: Vec<f64> = row.iter().copied().filter(|x| !x.is_infinite()).collect();
        let count = finite.len().max(1) as f64;
        OfRuns {
            strayed: sums.iter().map(|sum| (sum / count).sqrt()).collect(),
            least: root_mean_square(finite.iter().map(|x| LEAST * storage.spacing(*x))).max(f64::MIN_POSITIVE),
        }
    };
    truth.rows().into_iter().zip(sums).map(of_row).collect()
}

/// The weight of the whole matrix in what is typical of an element: enough that no element is expected to be exact
/// where others are not.
const WHOLE: f64 = 1e-3;

/// What is typical of an element at least, in distances of its neighbours: few runs may store one value all of them, and
/// another implementation the next to it.
const LEAST: f64 = 0.25;

impl OfRow {
    /// Of a row of the truth, the squares of the runs' deviations from it, and `whole`, a little of the mean square of the whole
    /// matrix, of all runs and without each.
    fn new(
        truth: ArrayView1<'_, f64>,
        squares: &[Vec<f64>],
        (whole, without): (f64, &[f64]),
        storage: Storage,
    ) -> Self {
        let least = truth.iter().map(|x| (!x.is_infinite()).then(|| LEAST * storage.spacing(*x)));
        let least: Vec<Option<f64>> = least.collect();
        let (mut all, mut others) = (vec![0.0; truth.len()], vec![vec![0.0; truth.len()]; squares.len()]);
        let mut of_element = vec![0.0; squares.len()];
        for j in 0..truth.len() {
            of_element.iter_mut().zip(squares).for_each(|(of, run)| *of = run[j]);
            let (sum, without) = without_each(&of_element);
            all[j] = sum;
            others.iter_mut().zip(without).for_each(|(others, sum)| others[j] = sum);
        }
        typical(&mut all, (whole, squares.len()), &least);
        let figures = others.iter_mut().zip(squares).zip(without).map(|((others, run), whole)| {
            typical(others, (*whole, squares.len() - 1), &least);
            let scaled = |(square, scale): (&f64, &f64)| if *square == 0.0 { 0.0 } else { square / scale / scale };
            let scaled = run.iter().zip(&*others).map(scaled);
            let scaled = scaled.map(|scaled| if scaled.is_nan() { f64::INFINITY } else { scaled });
            scaled.fold((0.0, 0.0), |(largest, sum): (f64, f64), square| (largest.max(square), sum + square))
        });
        OfRow { figures: figures.collect(), scale: all }
    }
}

/// The sum of all, and the sums without each.
fn without_each(all: &[f64]) -> (f64, Vec<f64>) {
    let mut without = vec![0.0; all.len()];
    let mut before = 0.0;
    for (without, own) in without.iter_mut().zip(all) {
        *without = before;
        before += own;
    }
    let mut after = 0.0;
    for (without, own) in without.iter_mut().zip(all).rev() {
        *without += after;
        after += own;
    }
    (before, without)
}

/// From the sums of a row's squares over so many runs: the root of the mean of an element's own mean square and that of its row,
/// and a little of the whole; at least so much, and of what is masked, which has no least, nothing.
fn typical(sums: &mut [f64], (whole, count): (f64, usize), least: &[Option<f64>]) {
    let mean = sums.iter().sum::<f64>() / least.iter().flatten().count() as f64;
    for (own, least) in sums.iter_mut().zip(least) {
        *own = least.map_or(0.0, |least| ((*own + mean + whole) / (2.0 * count as f64)).sqrt().max(least));
    }
}
