//! Where the next of several figures lies, as Student's t says of their logarithms.

use std::sync::LazyLock;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Runs that measure a floor.
pub(crate) const MEMBERS: usize = 12;

/// How often a correct candidate may exceed the limit of one figure.
const FALSE_ALARM: f64 = 1e-6;

/// Where the logarithm of the next run's figure lies: around `mean`, as far as Student's t says in units of `deviation`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prediction {
    pub(super) mean: f64,
    deviation: f64,
    freedom: f64,
    /// What the figure stays below.
    pub(super) limit: f64,
}

impl Prediction {
    /// Of the next of these positive, log-normal figures.
    pub(super) fn of(figures: impl Iterator<Item = f64>) -> Self {
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

    /// The probability that the next figure is smaller than this.
    pub(super) fn share_below(&self, figure: f64) -> f64 {
        match (figure > 0.0, self.deviation > 0.0) {
            (true, true) => t_distribution(self.freedom).cdf((figure.ln() - self.mean) / self.deviation),
            (true, false) => 1.0,
            (false, _) => 0.0,
        }
    }
}

/// A figure in units of its limit.
pub(super) fn over(figure: f64, limit: f64) -> f64 {
    if figure == 0.0 { 0.0 } else { figure / limit }
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
