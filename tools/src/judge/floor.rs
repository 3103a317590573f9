//! The noise floor: how far correct implementations stray, measured.
//!
//! The reference is run several times with stochastic rounding at the candidate's rounding points. Each element's
//! deviation from the truth is scaled by what is typical there, and two figures of the result are taken: its largest
//! and its root mean square. Over the runs both are close to log-normal, so the next run stays, with a stated
//! probability, below the prediction limit of Student's t; the candidate is the next run.

use std::sync::LazyLock;

use ndarray::{Array2, Zip};
use reference::Storage;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Runs that measure a floor.
pub(crate) const MEMBERS: usize = 12;

/// Runs after which it shows what is far beyond any noise.
pub(super) const FEW: usize = 2;

/// How many times as far as each of a few runs strays nothing comes that rounding explains: over the limit unless runs differ
/// from one another by a factor of 1.6 in a standard deviation, where they do by tenths.
pub(super) const FAR: f64 = 100.0;

/// How often a correct candidate may exceed the limit of one site.
const FALSE_ALARM: f64 = 1e-6;

/// What the runs say of one site.
#[derive(Debug, Clone)]
pub(super) struct NoiseFloor {
    /// What is typical of each element.
    scale: Array2<f64>,
    /// Of the largest scaled deviation, its logarithm.
    peak: Prediction,
    /// Of the root mean square of the scaled deviations, its logarithm.
    rms: Prediction,
    /// The largest ‖deviation‖ of a run.
    pub largest: f64,
}

/// Where the logarithm of the next run's figure lies: around `mean`, as far as Student's t says in units of `deviation`.
#[derive(Debug, Clone, Copy)]
struct Prediction {
    mean: f64,
    deviation: f64,
    freedom: f64,
    /// What the figure stays below.
    limit: f64,
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
    Zip::from(a).and(b).map_collect(|a, b| if a == b { 0.0 } else { a - b })
}

impl NoiseFloor {
    /// Of the values that the runs computed, and the truth, as they are stored.
    pub(super) fn of(truth: &Array2<f64>, members: &[Array2<f64>], storage: Storage) -> Self {
        let squares: Vec<Array2<f64>> = members.iter().map(|m| apart(m, truth).mapv_into(|d| d * d)).collect();
        let least = truth.mapv(|x| LEAST * storage.spacing(x));
        let scale = typical(&squares, None, &least);
        let figures: Vec<Figures> = (0..members.len())
            .map(|left_out| Figures::of(&squares[left_out].mapv(f64::sqrt), &typical(&squares, Some(left_out), &least)))
            .collect();
        let peak = Prediction::of(figures.iter().map(|f| f.peak));
        let rms = Prediction::of(figures.iter().map(|f| f.rms));
        let largest = squares.iter().map(|s| s.sum().sqrt()).fold(0.0, f64::max);
        NoiseFloor { scale, peak, rms, largest }
    }

    /// The candidate's deviations in units of the limits: above 1 no correct candidate comes.
    pub(super) fn ratio(&self, deviation: &Array2<f64>) -> f64 {
        let figures = Figures::of(deviation, &self.scale);
        let over = |figure: f64, limit: f64| if figure == 0.0 { 0.0 } else { figure / limit };
        over(figures.peak, self.peak.limit).max(over(figures.rms, self.rms.limit))
    }

    /// The share of right implementations that stray less, by root mean square, as the runs predict it. A random rounding
    /// has twice the variance of one to nearest, which implementations do: E f(1 − f) = 1/6 against 1/12 of the distance
    /// of neighbours squared. What values were before they were saved is drawn from all that they may have been, which has the
    /// variance of a rounding to nearest itself: where they were, runs stray as far as implementations do, at least.
    pub(super) fn quantile(&self, deviation: &Array2<f64>, were_saved: bool) -> f64 {
        let further = if were_saved { 1.0 } else { std::f64::consts::SQRT_2 };
        let rms = Figures::of(deviation, &self.scale).rms * further;
        let Prediction { mean, deviation, freedom, .. } = self.rms;
        match (rms > 0.0, deviation > 0.0) {
            (true, true) => t_distribution(freedom).cdf((rms.ln() - mean) / deviation),
            (true, false) => 1.0,
            (false, _) => 0.0,
        }
    }

    /// ‖deviation‖ of a run that is just within the limits, its errors spread as is typical. Where that is more than
    /// the signal, any values of that size are, and the comparison says nothing.
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
    fn of(deviation: &Array2<f64>, scale: &Array2<f64>) -> Self {
        let (mut peak, mut sum) = (0.0_f64, 0.0);
        Zip::from(deviation).and(scale).for_each(|&d, &s| {
            let scaled = if d == 0.0 { 0.0 } else { (d / s).abs() };
            let scaled = if scaled.is_nan() { f64::INFINITY } else { scaled };
            peak = peak.max(scaled);
            sum += scaled * scaled;
        });
        Figures { peak, rms: (sum / deviation.len() as f64).sqrt() }
    }
}

/// The weight of the whole matrix in what is typical of an element: enough that no element is expected to be exact
/// where others are not.
const WHOLE: f64 = 1e-3;

/// What is typical of an element at least, in distances of its neighbours: few runs may store one value all of them, and
/// another implementation the next to it.
const LEAST: f64 = 0.25;

/// The root of the mean of an element's own mean square over the runs and that of its row, and a little of the whole; at
/// least so much.
fn typical(squares: &[Array2<f64>], left_out: Option<usize>, least: &Array2<f64>) -> Array2<f64> {
    let mut sum = Array2::zeros(squares[0].dim());
    let mut count = 0.0;
    for (_, square) in squares.iter().enumerate().filter(|(i, _)| Some(*i) != left_out) {
        sum += square;
        count += 1.0;
    }
    let whole = WHOLE * sum.sum() / sum.len() as f64;
    for mut row in sum.rows_mut() {
        let mean = row.sum() / row.len() as f64;
        row.mapv_inplace(|own| ((own + mean + whole) / (2.0 * count)).sqrt());
    }
    sum.zip_mut_with(least, |own, least| *own = own.max(*least));
    sum
}

/// How far the next of these differences, normal around 0, stays from 0.
pub(crate) fn difference_limit(differences: impl Iterator<Item = f64>) -> f64 {
    let squares: Vec<f64> = differences.map(|d| d * d).collect();
    student(squares.len()) * (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

fn t_distribution(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom")
}

/// The quantile of Student's t that a correct candidate exceeds as often as is allowed, of so many degrees of freedom as runs
/// leave.
fn student(freedom: usize) -> f64 {
    static QUANTILES: LazyLock<[f64; MEMBERS]> = LazyLock::new(|| {
        std::array::from_fn(|below| t_distribution(1.0 + below as f64).inverse_cdf(1.0 - FALSE_ALARM))
    });
    QUANTILES[freedom - 1]
}

impl Prediction {
    /// Of the next of these positive, log-normal figures.
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = figures.filter(|f| *f > 0.0).map(f64::ln).collect();
        let n = logs.len() as f64;
        if logs.len() < 2 {
            return Prediction { mean: f64::NEG_INFINITY, deviation: 0.0, freedom: 1.0, limit: 0.0 };
        }
        let mean = logs.iter().sum::<f64>() / n;
        let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let deviation = (variance * (1.0 + 1.0 / n)).sqrt();
        let limit = (mean + student(logs.len() - 1) * deviation).exp();
        Prediction { mean, deviation, freedom: n - 1.0, limit }
    }
}
