//! A bias that is added to what a norm reads, where that is not shown.
//!
//! ```text
//! yᵢⱼ = wⱼ·(xᵢⱼ + bⱼ) / √(ε + (1/d)·Σₖ (xᵢₖ + bₖ)²)        solved for b
//! tᵢ·yᵢⱼ/wⱼ − bⱼ = xᵢⱼ        linear in t and b
//! ```
//!
//! with y \[n, d\] the candidate's, x \[n, d\] what the norm reads when it is right, b \[d\], and t \[n\] the root, of each row one.

use nalgebra::{DMatrix, DVector};
use ndarray::{Array1, Array2, ArrayView1, Axis, s};

use super::statistic;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::directions::BIAS;
use crate::diagnose::search::solved::solution::Solution;

/// Rows by which it is solved, at most and at least: three have twice as many equations as there are unknowns.
const ROWS: usize = 128;
const LEAST: usize = 3;

/// Of x, and of weights of which none is near 0; of each head, where these have norms of their own.
pub(super) fn solve(bench: &Bench<'_, '_>, x: &Array2<f64>, w: &Array1<f64>) -> Option<Solution> {
    let width = w.len();
    let (mut values, mut found) = (bench.ideal.clone(), false);
    for first in (0..values.ncols()).step_by(width) {
        let of_head = |values: &Array2<f64>| values.slice(s![.., first..first + width]).to_owned();
        let (y, right, x) = (of_head(&bench.candidate), of_head(&bench.ideal), of_head(x));
        let is = |values: &Array2<f64>| {
            y.rows().into_iter().zip(values.rows()).all(|(y, value)| {
                let apart = &y - &value;
                apart.dot(&apart).sqrt() <= bench.rounding() * y.dot(&y).sqrt()
            })
        };
        if is(&right) {
            continue;
        }
        let biased = of_bias(&(&right / w), &x, &bias(&(&y / w), &x)?) * w;
        if !is(&biased) {
            return None;
        }
        values.slice_mut(s![.., first..first + width]).assign(&biased);
        found = true;
    }
    let said = format!("before the norm, every row has the same added to it: {BIAS}");
    found.then(|| Solution::new(vec![said], values))
}

/// What is normed of x with a bias, by the ε of what is normed without it.
fn of_bias(z: &Array2<f64>, x: &Array2<f64>, bias: &Array1<f64>) -> Array2<f64> {
    let mut normed = x + bias;
    for ((mut row, z), x) in normed.rows_mut().into_iter().zip(z.rows()).zip(x.rows()) {
        let (_, eps) = statistic::root(z, x);
        let root = (row.dot(&row) / row.len() as f64 + eps).sqrt();
        row /= root;
    }
    normed
}

/// b by least squares. For given t it is the mean of t·z − x over rows, which leaves for t
/// `Σⱼ (δᵢⱼ − 1/n)·(zᵢ·zⱼ)·tⱼ = zᵢ·xᵢ − zᵢ·x̄`.
fn bias(z: &Array2<f64>, x: &Array2<f64>) -> Option<Array1<f64>> {
    let rows = z.nrows().min(ROWS);
    if rows < LEAST {
        return None;
    }
    let (z, x) = (z.slice(s![..rows, ..]), x.slice(s![..rows, ..]));
    let mean = x.mean_axis(Axis(0))?;
    let gram = z.dot(&z.t());
    let share = |i: usize, j: usize| f64::from(u8::from(i == j)) - (rows as f64).recip();
    let squares = DMatrix::from_fn(rows, rows, |i, j| share(i, j) * gram[[i, j]]);
    let along = |z: ArrayView1<'_, f64>, x: ArrayView1<'_, f64>| z.dot(&x) - z.dot(&mean);
    let right = DVector::from_iterator(rows, z.rows().into_iter().zip(x.rows()).map(|(z, x)| along(z, x)));
    let t = squares.cholesky()?.solve(&right);
    let t = Array1::from_iter(t.iter().copied()).insert_axis(Axis(1));
    (&z * &t - x).mean_axis(Axis(0))
}
