//! What a layer norm may take for a row's mean and its variance.

use std::fmt;

use ndarray::{ArrayView1, s};

/// Channels that a kernel leaves out at most as they fill no whole vector: as many as a warp of 32 threads has by twos.
const REST: usize = 64;

/// Parts of a row one of which a kernel takes for all of it, as of a block of threads or of ranks.
const PARTS: [usize; 4] = [2, 4, 8, 16];

/// What is taken off a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mean {
    Right,
    None,
    /// That of so many channels, the first.
    First(usize),
}

/// What a row is divided by the root of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variance {
    Right,
    /// The mean of squares, whatever the mean.
    Squares,
    /// Divided by one channel less.
    Corrected,
    /// That of so many channels, the first.
    First(usize),
    /// About what is taken off, which is not the mean.
    AboutTaken,
}

/// Both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    mean: Mean,
    variance: Variance,
}

/// As it has to be.
pub(super) const RIGHT: Way = Way { mean: Mean::Right, variance: Variance::Right };

/// All ways in rows of so many channels.
pub(super) fn ways(channels: usize) -> impl Iterator<Item = Way> {
    let rest = (1..channels.min(REST + 1)).map(move |rest| channels - rest);
    let parts =
        PARTS.into_iter().filter(move |parts| channels.is_multiple_of(*parts)).map(move |parts| channels / parts);
    let counts: Vec<usize> = rest.chain(parts).filter(|count| *count > 1).collect();
    let means = [Mean::Right, Mean::None].into_iter().chain(counts.clone().into_iter().map(Mean::First));
    let plain = [Variance::Right, Variance::Squares, Variance::Corrected, Variance::AboutTaken];
    let variances: Vec<Variance> = plain.into_iter().chain(counts.into_iter().map(Variance::First)).collect();
    let both = move |mean| variances.clone().into_iter().map(move |variance| Way { mean, variance });
    // Where both are those of the first channels, they are of the same ones.
    let is_plain = |way: &Way| !matches!((way.mean, way.variance), (Mean::First(a), Variance::First(b)) if a != b);
    means.flat_map(both).filter(is_plain)
}

fn mean_of(row: ArrayView1<'_, f64>) -> f64 {
    row.sum() / row.len() as f64
}

fn variance_of(row: ArrayView1<'_, f64>, about: f64) -> f64 {
    row.fold(0.0, |sum, x| sum + (x - about) * (x - about)) / row.len() as f64
}

impl Way {
    /// s and t of a row.
    pub(super) fn of(self, row: ArrayView1<'_, f64>, eps: f64) -> (f64, f64) {
        let right = mean_of(row);
        let mean = match self.mean {
            Mean::Right => right,
            Mean::None => 0.0,
            Mean::First(count) => mean_of(row.slice(s![..count])),
        };
        let d = row.len() as f64;
        let variance = match self.variance {
            Variance::Right => variance_of(row, right),
            Variance::Squares => variance_of(row, 0.0),
            Variance::Corrected => variance_of(row, right) * d / (d - 1.0),
            Variance::First(count) => {
                let first = row.slice(s![..count]);
                variance_of(first, mean_of(first))
            }
            Variance::AboutTaken => variance_of(row, mean),
        };
        let s = (variance + eps).sqrt().recip();
        (s, mean * s)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = match self.mean {
            Mean::Right => None,
            Mean::None => Some("the mean is not taken off".to_owned()),
            Mean::First(count) => Some(format!("the mean of the first {count} channels is taken off")),
        };
        let variance = match self.variance {
            Variance::Right => None,
            Variance::Squares => Some("rows are divided by the root of their mean square".to_owned()),
            Variance::Corrected => Some("the variance is divided by one channel less than there are".to_owned()),
            Variance::First(count) => Some(format!("the variance is that of the first {count} channels")),
            Variance::AboutTaken => Some("the variance is about what is taken off".to_owned()),
        };
        f.write_str(&mean.into_iter().chain(variance).collect::<Vec<_>>().join(", and "))
    }
}
