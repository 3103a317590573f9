//! Sums of magnitudes and of squares, from which errors of products follow: in f32, each row in units of a power of two of its own,
//! so that all magnitudes have room. What f32 rounds is far below what they are used for, and is allowed for where a bound has
//! to be certain.

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut1, ArrayViewMut2, Axis};

use super::kernel::Packed;
use crate::Real;
use crate::storage::{exponent, power_of_two};

/// Lanes in which the largest magnitude is looked for.
const LANES: usize = 8;

/// Rows that are not negative, each in units of a power of two.
#[derive(Debug)]
pub(crate) struct Scaled {
    values: Packed<f32>,
    /// 0 for a row of zeros.
    units: Vec<f64>,
}

/// Σ a·|w| and Σ v·w² of rows a and v with rows of w.
#[derive(Debug)]
pub(crate) struct Absolute {
    values: Array2<f32>,
    squares: Array2<f32>,
    /// Units of a and of v.
    rows: [Vec<f64>; 2],
    /// Units of w.
    columns: Array1<f64>,
    /// Σ |w| \[m\].
    pub(crate) weights: Array1<f64>,
    terms: usize,
}

/// Some columns of it, which rows of w are for.
pub(super) struct Columns<'a> {
    values: ArrayViewMut2<'a, f32>,
    squares: ArrayViewMut2<'a, f32>,
    units: ArrayViewMut1<'a, f64>,
    weights: ArrayViewMut1<'a, f64>,
}

impl Scaled {
    /// Rows.
    pub(crate) fn of(x: ArrayView2<'_, f64>) -> Self {
        let (values, units) = magnitudes(x);
        Scaled { values: Packed::of(values.view()), units }
    }

    /// |x| and x² of values without an error.
    pub(crate) fn of_known<T: Real>(x: ArrayView2<'_, T>) -> (Self, Self) {
        (Scaled::of(x.mapv(T::wide).view()), Scaled::of_squares(x))
    }

    /// x².
    pub(crate) fn of_squares<T: Real>(x: ArrayView2<'_, T>) -> Self {
        Scaled::of(x.mapv(|x| x.wide() * x.wide()).view())
    }

    /// How many.
    pub(super) fn rows(&self) -> usize {
        self.values.rows()
    }

    /// What `f` makes of each row's y \[n, m\], and of Σ x·w² there, with rows of w that are widened. Rows of y may be more than its
    /// own, some times as many, which come round again.
    pub(crate) fn with_squares<T: Real, F: Real>(
        &self,
        panel: ArrayView2<'_, F>,
        y: &mut ArrayViewMut2<'_, T>,
        f: impl Fn(usize, f64, T) -> T,
    ) {
        let (mut of_w, columns) = magnitudes(panel);
        of_w.mapv_inplace(|w| w * w);
        let mut sums = Array2::<f32>::zeros((self.rows(), of_w.nrows()));
        self.values.times(of_w.view(), &mut sums.view_mut());
        for (i, mut y) in y.rows_mut().into_iter().enumerate() {
            let own = i % self.rows();
            let each = y.iter_mut().zip(sums.row(own)).zip(&columns);
            each.for_each(|((y, &sum), &column)| *y = f(i, square(sum, self.units[own], column), *y));
        }
    }
}

/// The magnitudes of each row's values, in a unit, and the unit: 0 for a row of zeros.
#[expect(clippy::cast_possible_truncation, reason = "the type that they are added in")]
fn magnitudes<T: Real>(x: ArrayView2<'_, T>) -> (Array2<f32>, Vec<f64>) {
    let (x, mut values) = (x.as_standard_layout(), Array2::zeros(x.dim()));
    let units = x.rows().into_iter().zip(values.rows_mut()).map(|(x, mut values)| {
        let largest = largest(x.as_slice().expect("a row in standard layout is in one piece"));
        if largest == 0.0 {
            // What is no number stays so.
            values.zip_mut_with(&x, |value, x| *value = x.wide() as f32);
            return 0.0;
        }
        let e = if largest.is_finite() { exponent(largest).clamp(-1000, 1000) } else { 0 };
        let inverse = power_of_two(-e);
        values.zip_mut_with(&x, |value, x| *value = (x.wide().abs() * inverse) as f32);
        power_of_two(e)
    });
    let units = units.collect();
    (values, units)
}

/// The largest magnitude: in lanes, so that several are compared at a time.
fn largest<T: Real>(x: &[T]) -> f64 {
    let (parts, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0_f64; LANES];
    for part in parts {
        lanes = std::array::from_fn(|i| lanes[i].max(part[i].wide().abs()));
    }
    lanes.into_iter().chain(rest.iter().map(|x| x.wide().abs())).fold(0.0, f64::max)
}

#[inline]
fn square(sum: f32, row: f64, column: f64) -> f64 {
    f64::from(sum) * row * (column * column)
}

impl Absolute {
    pub(super) fn zeros((a, v): (&Scaled, &Scaled), (m, terms): (usize, usize)) -> Self {
        let dim = (a.rows(), m);
        let rows = [a.units.clone(), v.units.clone()];
        let [values, squares] = [Array2::zeros(dim), Array2::zeros(dim)];
        let [columns, weights] = [Array1::zeros(m), Array1::zeros(m)];
        Absolute { values, squares, rows, columns, weights, terms }
    }

    /// So many columns at a time.
    pub(super) fn chunks(&mut self, count: usize) -> impl Iterator<Item = Columns<'_>> {
        let Absolute { values, squares, columns, weights, .. } = self;
        let matrices = values.axis_chunks_iter_mut(Axis(1), count);
        let matrices = matrices.zip(squares.axis_chunks_iter_mut(Axis(1), count));
        let rows = columns.axis_chunks_iter_mut(Axis(0), count);
        let rows = rows.zip(weights.axis_chunks_iter_mut(Axis(0), count));
        matrices.zip(rows).map(|((values, squares), (units, weights))| Columns { values, squares, units, weights })
    }

    /// Σ a·|w|, or a little more: k additions in f32 are off by k·u of the sum at most, factors that are rounded before by u each,
    /// and what underflows is allowed for.
    #[inline]
    pub(crate) fn certain(&self, at: (usize, usize)) -> f64 {
        let k = self.terms as f64;
        let above = 1.0 + 2.0 * (k + 8.0) * f32::UNIT_ROUNDOFF;
        let underflow = k * f64::from(f32::from_bits(1)) * 4.0;
        (f64::from(self.values[at]) * above + underflow) * self.rows[0][at.0] * self.columns[at.1]
    }

    /// Σ v·w².
    #[inline]
    pub(crate) fn square(&self, at: (usize, usize)) -> f64 {
        square(self.squares[at], self.rows[1][at.0], self.columns[at.1])
    }
}

impl Columns<'_> {
    /// How many.
    pub(super) fn count(&self) -> usize {
        self.units.len()
    }

    /// Adds what rows of w make that are widened.
    pub(super) fn add<T: Real>(mut self, (a, v): (&Scaled, &Scaled), panel: ArrayView2<'_, T>) {
        for (sum, w) in self.weights.iter_mut().zip(panel.rows()) {
            *sum = w.iter().map(|w| w.wide().abs()).sum();
        }
        let (mut of_w, units) = magnitudes(panel);
        self.units.assign(&Array1::from(units));
        a.values.times(of_w.view(), &mut self.values);
        of_w.mapv_inplace(|w| w * w);
        v.values.times(of_w.view(), &mut self.squares);
    }
}
