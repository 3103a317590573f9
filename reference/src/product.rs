//! Products with the rows of a weight, which is widened some rows at a time, and the sums from which their errors follow.

mod absolute;
mod kernel;

use ndarray::{Array2, ArrayView2, Axis};

use crate::Real;
use crate::matrix::Matrix;
use crate::parallel;
pub(crate) use absolute::{Absolute, Scaled};
pub(crate) use kernel::Packed;

/// Rows of w that are widened at a time, or as many as take so many bytes: they stay in the cache, and x is read once for them.
const PANEL: (usize, usize) = (32, 1 << 18);

/// Sums over k of each row of x \[n, k\] with each row of w \[m, k\].
#[derive(Debug)]
pub(crate) struct Product<T> {
    /// x.
    pub(crate) x: Array2<T>,
    /// Σ xw \[n, m\].
    pub(crate) sums: Array2<T>,
    /// Σ |xw| and Σ (xw)².
    pub(crate) absolute: Absolute,
}

impl<T: Real> Product<T> {
    /// That of x \[n, k\] and w \[m, k\].
    pub(crate) fn of(x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Self {
        let (magnitudes, squares) = Scaled::of_known(x);
        let mut sums = Array2::zeros((x.nrows(), w.dim().0));
        let absolute = Absolute::beside((&Packed::of(x), &mut sums), (&magnitudes, &squares), w);
        Product { x: x.to_owned(), sums, absolute }
    }

    /// k.
    pub(crate) fn terms(&self) -> usize {
        self.x.ncols()
    }

    /// Bytes of one of such extents.
    pub(crate) fn bytes((n, k): (usize, usize), m: usize) -> usize {
        size_of::<T>() * (n * k + n * m) + size_of::<f32>() * 2 * n * m + size_of::<f64>() * 2 * m
    }
}

impl Absolute {
    /// Σ a·|w| and Σ v·w² of a and v \[n, k\], which are not negative, and w \[m, k\].
    pub(crate) fn of(a: ArrayView2<'_, f64>, v: ArrayView2<'_, f64>, w: &Matrix<'_>) -> Self {
        let none = Packed::of(ArrayView2::<f64>::from_shape((0, a.ncols()), &[]).expect("no values"));
        let mut sums = Array2::zeros((0, w.dim().0));
        Absolute::beside((&none, &mut sums), (&Scaled::of(a), &Scaled::of(v)), w)
    }

    /// The same, and beside them Σ xw, of a w that is widened once.
    fn beside<T: Real>((x, sums): (&Packed<T>, &mut Array2<T>), (a, v): (&Scaled, &Scaled), w: &Matrix<'_>) -> Self {
        let mut absolute = Absolute::zeros((a, v), w.dim());
        let rows = panel_rows::<T>(w.dim());
        let multiplications = (x.rows() + a.rows() + v.rows()) * w.dim().0 * w.dim().1;
        let panels = sums.axis_chunks_iter_mut(Axis(1), rows).zip(absolute.chunks(rows)).enumerate();
        parallel::for_each(panels, multiplications, |(i, (mut sums, of_panel))| {
            let panel = w.panel::<T>(i * rows, of_panel.count());
            x.times(panel.view(), &mut sums);
            of_panel.add((a, v), panel.view());
        });
        absolute
    }
}

/// Rows of w \[m, k\] that are widened at a time.
pub(crate) fn panel_rows<T>((_, k): (usize, usize)) -> usize {
    (PANEL.1 / (k * size_of::<T>())).max(PANEL.0)
}
