//! What an RMS norm sums in place of all squares.
//!
//! ```text
//! sᵢ = 1/√(Σⱼ zᵢⱼ²/c + eᵢ)        over the first or last channels j, or all; solved for how many they are, and for c
//! sᵢ = 1/√(tᵢ + eᵢ)                t the variance, the square of the mean size, or the largest square
//! ```
//!
//! with z \[n, d\] what is right before the weight, s \[n\] how many times as large rows are, and e = 1 − Σⱼ zᵢⱼ²/d, over all
//! channels, the share that ε has of what is right.

use ndarray::{Array1, Array2, ArrayView1};

/// Rows by which it is told. Of a right statistic next to nothing is left, and one of thousands of wrong ones leaves a tenth of as
/// many independent differences in one of 10⁸ cases.
const ROWS: usize = 8;

/// What may be left of how far rows' mean squares are off, as a share: roundings.
const LEFT: f64 = 0.1;

/// How far a divisor may be from a whole number, as a share: roundings, of which many are averaged.
const WHOLE: f64 = 1e-3;

/// What a row's channels are summed up to.
type Statistic = fn(ArrayView1<'_, f64>) -> f64;

/// The statistic by which rows are nearest to so many times as large, and the factors that follow.
pub(super) fn told(z: &Array2<f64>, s: &Array1<f64>) -> Option<(String, Array1<f64>)> {
    let (n, width) = z.dim();
    // 1/s² is the mean square that was taken, with ε, where the right one is 1; without ε, the right one is `right`.
    let right: Array1<f64> = z.rows().into_iter().map(|row| row.dot(&row) / width as f64).collect();
    let taken = s.mapv(|s| (s * s).recip()) - right.mapv(|right| 1.0 - right);
    let moved: f64 = taken.iter().zip(&right).map(|(taken, right)| (taken - right).powi(2)).sum();
    if n < ROWS {
        return None;
    }
    let of_all = taken.sum() / right.sum();
    let divisor = (width as f64 / of_all).round();
    let is_of_all = taken
        .iter()
        .zip(&right)
        .all(|(taken, right)| (taken * divisor / width as f64 - right).abs() <= LEFT * (of_all - 1.0).abs() * right);
    if is_of_all
        && (width as f64 / of_all - divisor).abs() <= WHOLE * divisor
        && divisor >= 1.0
        && divisor != width as f64
    {
        let what = divided(width, divisor);
        return Some((what, right.mapv(|right| (right * width as f64 / divisor + 1.0 - right).sqrt().recip())));
    }
    let others: [(&str, Statistic); 3] = [
        ("the variance about the row's mean stands for the mean square", variance),
        ("the square of the mean size stands for the mean square", |z| {
            z.map(|z| z.abs()).mean().unwrap_or(0.0).powi(2)
        }),
        ("the largest square stands for the mean square", |z| z.fold(0.0, |most: f64, z| most.max(z * z))),
    ];
    for (what, of) in others {
        let stands: Array1<f64> = z.rows().into_iter().map(of).collect();
        let left: f64 = stands.iter().zip(&taken).map(|(stands, taken)| (stands - taken).powi(2)).sum();
        if left <= LEFT * LEFT * moved {
            return Some((what.to_owned(), (stands + right.mapv(|right| 1.0 - right)).mapv(|t| t.sqrt().recip())));
        }
    }
    // The squares of the channels before each [n, d + 1].
    let mut before = Array2::zeros((n, width + 1));
    for ((i, j), z) in z.indexed_iter() {
        before[[i, j + 1]] = before[[i, j]] + z * z;
    }
    let of = |(from, count, divisor): (usize, usize, usize)| -> Array1<f64> {
        (&before.column(from + count) - &before.column(from)) / divisor as f64
    };
    let left = |sums: Array1<f64>| (sums - &taken).mapv(|apart| apart * apart).sum();
    let all = (1..width).flat_map(|count| {
        [0, width - count].into_iter().flat_map(move |from| [(from, count, width), (from, count, count)])
    });
    let (off, nearest) =
        all.map(|of_channels| (left(of(of_channels)), of_channels)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    if off > LEFT * LEFT * moved {
        return None;
    }
    let (from, count, divisor) = nearest;
    let which = if from == 0 { "first" } else { "last" };
    let what = format!("the mean square has the {which} {count} of {width} channels, divided by {divisor}");
    Some((what, (of(nearest) + right.mapv(|right| 1.0 - right)).mapv(|mean| mean.sqrt().recip())))
}

/// What is said of a mean square over all channels with another divisor.
pub(super) fn divided(width: usize, divisor: f64) -> String {
    format!("the mean square has all {width} channels, divided by {divisor}")
}

/// r and ε of z = x·r.
pub(super) fn root(z: ArrayView1<'_, f64>, x: ArrayView1<'_, f64>) -> (f64, f64) {
    let r = z.dot(&x) / x.dot(&x);
    (r, r.powi(-2) - x.dot(&x) / x.len() as f64)
}

/// The mean square about the mean.
fn variance(z: ArrayView1<'_, f64>) -> f64 {
    let (n, sum) = (z.len() as f64, z.sum());
    z.dot(&z) / n - (sum / n).powi(2)
}
