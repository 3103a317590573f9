//! A-priori error bounds, element by element.
//!
//! A bound says by how much a correct implementation may differ from the reference, given how it rounds and
//! accumulates. It has two parts. `certain` cannot be exceeded by any order of evaluation. `sigma` is the standard
//! deviation under independent, centred roundings; [`confidence`] times it is exceeded with a stated, tiny probability.
//! Both take the error of an operator's inputs, so that bounds carry through a segment of several operators.

pub(crate) mod elementary;

use ndarray::{Array2, ArrayView2, Axis, Zip};

use crate::Storage;
use crate::parallel::{self, ELEMENT};

/// The error of a matrix, element by element.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorBound {
    /// |error| ≤ certain.
    pub certain: Array2<f64>,
    /// The standard deviation of the error; at most `certain`.
    pub sigma: Array2<f64>,
    /// How many matrix products this error was carried through since it was first made. Each inflates `certain` about
    /// fifty-fold over what is seen, so that beyond one a measured noise floor judges better.
    pub carried: u32,
}

impl ErrorBound {
    /// No error.
    pub fn exact(dim: (usize, usize)) -> Self {
        ErrorBound { certain: Array2::zeros(dim), sigma: Array2::zeros(dim), carried: 0 }
    }

    /// What has overflowed on the way is no number where it met a zero, and says as little as what is infinite.
    #[must_use]
    pub fn or_infinite(mut self) -> Self {
        let or_infinite = |error: f64| if error.is_nan() { f64::INFINITY } else { error };
        self.certain.mapv_inplace(or_infinite);
        self.sigma.mapv_inplace(or_infinite);
        self
    }

    /// That of the transpose.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let transposed = |x: &Array2<f64>| x.t().as_standard_layout().into_owned();
        ErrorBound { certain: transposed(&self.certain), sigma: transposed(&self.sigma), carried: self.carried }
    }

    /// Puts the rows of `below`, which has the same columns, under its own.
    pub fn append(&mut self, below: &ErrorBound) {
        for (own, below) in [(&mut self.certain, &below.certain), (&mut self.sigma, &below.sigma)] {
            own.append(Axis(0), below.view()).expect("both have the same columns");
        }
        self.carried = self.carried.max(below.carried);
    }

    /// How many matrix products what is made of these has been carried through: one more than the worst of them, if any has
    /// an error.
    pub(crate) fn carried_through(inputs: &[&ErrorBound]) -> u32 {
        let deepest = inputs.iter().map(|error| error.carried).max().unwrap_or(0);
        deepest + u32::from(inputs.iter().any(|error| !error.is_exact()))
    }

    /// Whether there is none.
    pub fn is_exact(&self) -> bool {
        self.certain.iter().all(|&e| e == 0.0)
    }

    /// The bound of a value that is then rounded to `storage`: |ρ(y + e) − y| ≤ e + half the neighbours' distance at |y| + e.
    #[must_use]
    pub fn rounded(mut self, value: ArrayView2<'_, f64>, storage: Storage) -> Self {
        if storage == Storage::Real {
            return self;
        }
        let rounded = |certain: &mut f64, sigma: &mut f64, &y: &f64| {
            let rounding = storage.rounding_error(y.abs() + *certain);
            *sigma = together(*sigma, storage.rounding_error(y) / 3.0_f64.sqrt());
            *certain += rounding;
        };
        let rows = self.certain.rows_mut().into_iter().zip(self.sigma.rows_mut()).zip(value.rows());
        parallel::for_each(rows, ELEMENT * value.len(), |((certain, sigma), value)| {
            Zip::from(certain).and(sigma).and(value).for_each(rounded);
        });
        self
    }

    /// The standard deviation of the error that an element carried before its value y was rounded to `storage`.
    pub fn before_rounding(&self, at: (usize, usize), y: f64, storage: Storage) -> f64 {
        let last = storage.rounding_error(y);
        (self.sigma[at] * self.sigma[at] - last * last / 3.0).max(0.0).sqrt()
    }

    /// How far an element of value y, rounded to `storage` at last, is probably off at most: λ standard deviations, or λ of
    /// those before its last rounding and that rounding, whichever is less.
    pub fn probable(&self, at: (usize, usize), y: f64, storage: Storage, lambda: f64) -> f64 {
        let before = lambda * self.before_rounding(at, y, storage);
        (lambda * self.sigma[at]).min(before + storage.rounding_error(y.abs() + before))
    }

    /// The bound of the sum of two matrices with these errors, before any rounding.
    #[must_use]
    pub fn plus(&self, other: &ErrorBound) -> Self {
        let mut sigma = self.sigma.clone();
        sigma.zip_mut_with(&other.sigma, |a, &b| *a = together(*a, b));
        ErrorBound { certain: &self.certain + &other.certain, sigma, carried: self.carried.max(other.carried) }
    }
}

/// The standard deviation of the sum of two independent errors. Theirs are far from where squares overflow or vanish, so that
/// the care of `hypot` is not needed, which takes several times as long.
#[inline]
pub(crate) fn together(sigma: f64, other: f64) -> f64 {
    (sigma * sigma + other * other).sqrt()
}

/// λ such that among `count` values no error exceeds λ·sigma, but with probability `failure`: for errors that are
/// sums of independent bounded roundings, 2·count·exp(−λ²/2) = failure (Higham & Mary 2019, section 2).
pub fn confidence(count: usize, failure: f64) -> f64 {
    (2.0 * (2.0 * count.max(1) as f64 / failure).ln()).sqrt()
}
