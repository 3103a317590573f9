//! Linear least squares.

use nalgebra::{DMatrix, DVector};
use ndarray::{ArrayView1, ArrayView2};

/// x of min ‖A·x − b‖.
pub(super) struct Solution {
    pub(super) x: Vec<f64>,
    /// The standard deviation of each x, of errors that are alike in all equations.
    pub(super) deviation: Vec<f64>,
    /// What is left of the squares of b, as a share.
    pub(super) left: f64,
}

/// The least share of a column's squares that the columns before it may leave. By the normal equations x has the digits of f64 less
/// those of this number: four.
const INDEPENDENT: f64 = 1e-12;

/// Of A \[n, m\] and b \[n\], if they determine it.
pub(super) fn solve(a: ArrayView2<'_, f64>, b: ArrayView1<'_, f64>) -> Option<Solution> {
    let (n, m) = a.dim();
    let total = b.dot(&b);
    if n <= m || total == 0.0 {
        return None;
    }
    let a = DMatrix::from_row_iterator(n, m, a.iter().copied());
    let b = DVector::from_iterator(n, b.iter().copied());
    let squares = a.tr_mul(&a);
    let normal = squares.clone().cholesky()?;
    // The diagonal of the factor L has what is left of each column beside those before it.
    if (0..m).any(|i| normal.l_dirty()[(i, i)].powi(2) < INDEPENDENT * squares[(i, i)]) {
        return None;
    }
    let x = normal.solve(&a.tr_mul(&b));
    let left = (b - a * &x).norm_squared();
    let variance = left / (n - m) as f64;
    let inverse = normal.inverse();
    let deviation = (0..m).map(|i| (variance * inverse[(i, i)]).sqrt()).collect();
    Some(Solution { x: x.iter().copied().collect(), deviation, left: left / total })
}
