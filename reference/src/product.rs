//! Products with the rows of a weight, which is widened some rows at a time, and the sums from which their errors follow.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, Zip};

use crate::Real;
use crate::matrix::Matrix;

/// Rows of w that are widened at a time, for a few rows of x, or as many as take so many bytes.
const PANEL: (usize, usize) = (64, 1 << 18);

/// More rows of x than this are many: `dot` copies them for each panel, so panels are wide.
const MANY: usize = 256;

/// Bytes of a widened panel, at most, for many rows of x.
const PANEL_BYTES: usize = 32 << 20;

/// Up to so many rows of x are multiplied one by one: `dot` is slow for them.
const FEW: usize = 4;

/// Sums over k of each row of x \[n, k\] with each row of w \[m, k\].
#[derive(Debug)]
pub(crate) struct Product<T> {
    /// x.
    pub(crate) x: Array2<T>,
    /// Σ xw \[n, m\].
    pub(crate) sums: Array2<T>,
    /// Σ (xw)² \[n, m\].
    pub(crate) squares: Array2<T>,
    /// Σ |xw| \[n, m\].
    pub(crate) magnitudes: Array2<T>,
    /// Σ |w| \[m\].
    pub(crate) weights: Array1<T>,
}

impl<T: Real> Product<T> {
    /// That of x \[n, k\] and w \[m, k\].
    pub(crate) fn of(x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Self {
        let dim = (x.nrows(), w.dim().0);
        let (x_magnitudes, x_squares) = (x.mapv(T::abs), x.mapv(|x| x * x));
        let [mut sums, mut magnitudes, mut squares] = [(); 3].map(|()| Array2::zeros(dim));
        let mut weights = Array1::zeros(dim.1);
        let rows = panel_rows::<T>(x.nrows(), w.dim());
        let panels = sums.axis_chunks_iter_mut(Axis(1), rows).into_par_iter();
        let panels = panels.zip(magnitudes.axis_chunks_iter_mut(Axis(1), rows));
        let panels = panels.zip(squares.axis_chunks_iter_mut(Axis(1), rows));
        let panels = panels.zip(weights.axis_chunks_iter_mut(Axis(0), rows)).enumerate();
        panels.for_each(|(i, (((mut sums, mut magnitudes), mut squares), mut weights))| {
            let mut panel = w.panel::<T>(i * rows, sums.ncols());
            times(x, panel.view(), &mut sums);
            panel.mapv_inplace(T::abs);
            times(x_magnitudes.view(), panel.view(), &mut magnitudes);
            weights.assign(&panel.sum_axis(Axis(1)));
            panel.mapv_inplace(|w| w * w);
            times(x_squares.view(), panel.view(), &mut squares);
        });
        Product { x: x.to_owned(), sums, squares, magnitudes, weights }
    }

    /// k.
    pub(crate) fn terms(&self) -> usize {
        self.x.ncols()
    }
}

/// y = x·wᵀ of rows of w that are widened.
pub(crate) fn times<T: Real>(x: ArrayView2<'_, T>, panel: ArrayView2<'_, T>, y: &mut ArrayViewMut2<'_, T>) {
    if x.nrows() <= FEW {
        Zip::indexed(y).for_each(|(i, j), y| *y = x.row(i).dot(&panel.row(j)));
    } else {
        general_mat_mul(T::one(), &x, &panel.t(), T::zero(), y);
    }
}

/// Rows of w \[m, k\] that are widened at a time, for n rows of x: where these are many, as many panels for each thread.
pub(crate) fn panel_rows<T>(n: usize, (m, k): (usize, usize)) -> usize {
    let rows_of = |bytes: usize| (bytes / (k * size_of::<T>())).max(PANEL.0);
    if n <= MANY {
        return rows_of(PANEL.1);
    }
    let most = rows_of(PANEL_BYTES);
    m.div_ceil(m.div_ceil(most).next_multiple_of(rayon::current_num_threads()))
}
