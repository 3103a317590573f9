//! The one comparator: a candidate's values against the reference's, within a bound.
//!
//! A candidate passes where `|candidate − reference| ≤ bound`, written so that a NaN on any side fails, an infinity
//! passes only against the same infinity, and an infinite or NaN bound never makes a pass of a non-finite value.

use ndarray::parallel::prelude::*;
use ndarray::{ArrayView2, Axis, Zip};

use crate::Storage;
use crate::bound::ErrorBound;

/// Rows that one thread compares at a time.
const ROWS: usize = 64;

/// The element that stands out most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst {
    /// Row and column.
    pub at: (usize, usize),
    /// What the candidate has there.
    pub candidate: f64,
    /// What the reference has there.
    pub reference: f64,
    /// How far they may be apart.
    pub bound: f64,
    /// |candidate − reference| / bound; ∞ where one is not finite or the bound is 0.
    pub ratio: f64,
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Elements compared.
    pub count: usize,
    /// Elements that are the reference's, rounded to the candidate's storage.
    pub equal: usize,
    /// Elements outside the certain bound, or not finite where the reference is.
    pub faults: usize,
    /// Elements inside the certain bound but outside the [probable](ErrorBound::probable) one.
    pub suspicious: usize,
    /// The largest ratio, the first of equals.
    pub worst: Option<Worst>,
}

/// |candidate − reference| / bound, for equal values 0, and ∞ for ones that cannot be compared or with no proper bound.
pub fn ratio(candidate: f64, reference: f64, bound: f64) -> f64 {
    if candidate == reference {
        return 0.0;
    }
    let ratio = (candidate - reference).abs() / bound;
    let comparable = candidate.is_finite() && reference.is_finite() && bound >= 0.0 && !ratio.is_nan();
    if comparable { ratio } else { f64::INFINITY }
}

/// Compares element by element what is stored in `storage`; `lambda` is [`crate::bound::confidence`] of the number of
/// elements in the run.
pub fn compare(
    candidate: ArrayView2<'_, f64>,
    reference: ArrayView2<'_, f64>,
    error: &ErrorBound,
    storage: Storage,
    lambda: f64,
) -> Comparison {
    let of_rows = |first: usize, candidate: ArrayView2<'_, f64>, reference: ArrayView2<'_, f64>| {
        let mut found = Comparison { count: reference.len(), ..Comparison::default() };
        Zip::indexed(candidate).and(reference).for_each(|(i, j), &c, &r| {
            let at = (first + i, j);
            let bound = error.certain[at];
            let ratio = ratio(c, r, bound);
            found.equal += usize::from(c == storage.nearest(r));
            // `ratio` is never NaN.
            if ratio > 1.0 {
                found.faults += 1;
            } else if c != r && (c - r).abs() > error.probable(at, r, storage, lambda) {
                found.suspicious += 1;
            }
            if found.worst.is_none_or(|worst| ratio > worst.ratio) {
                found.worst = Some(Worst { at, candidate: c, reference: r, bound, ratio });
            }
        });
        found
    };
    let rows = candidate.axis_chunks_iter(Axis(0), ROWS).into_par_iter();
    let rows = rows.zip(reference.axis_chunks_iter(Axis(0), ROWS)).enumerate();
    let parts: Vec<Comparison> =
        rows.map(|(i, (candidate, reference))| of_rows(i * ROWS, candidate, reference)).collect();
    parts.into_iter().fold(Comparison::default(), Comparison::and)
}

impl Comparison {
    /// With what was found in rows below.
    fn and(self, below: Comparison) -> Comparison {
        let greater = |worst: &Worst| self.worst.is_none_or(|own| worst.ratio > own.ratio);
        Comparison {
            count: self.count + below.count,
            equal: self.equal + below.equal,
            faults: self.faults + below.faults,
            suspicious: self.suspicious + below.suspicious,
            worst: below.worst.filter(greater).or(self.worst),
        }
    }
}
