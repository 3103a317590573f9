//! Holds a device's values against the reference's bound.

use half::bf16;
use ndarray::Array2;
use reference::bound::ErrorBound;

use crate::judge::within;

/// Fails unless every value is within its bound.
pub fn assert_within(got: &Array2<f64>, want: &Array2<f64>, error: &ErrorBound, what: &str) {
    if let Err(fault) = within(got, want, error) {
        panic!("{what}: {fault}");
    }
}

/// In f64.
pub fn wide(values: &Array2<bf16>) -> Array2<f64> {
    values.mapv(f64::from)
}

/// The bits of values that are stored in bf16.
pub fn bits(values: &Array2<f32>) -> Array2<u16> {
    values.mapv(|x| bf16::from_f32(x).to_bits())
}
