//! The order in which a choice takes the columns of a row.

use ndarray::ArrayView1;

use crate::Real;

/// Columns by value, largest first, the lowest index first among equals; NaN counts as larger than any number.
pub fn ranked<T: Real>(row: ArrayView1<'_, T>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| {
        let larger = |x: T, y: T| x.is_nan() && !y.is_nan() || x > y;
        larger(row[b], row[a]).cmp(&larger(row[a], row[b]))
    });
    order
}
