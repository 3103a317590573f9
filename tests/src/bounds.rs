//! Holds a device's values against the reference's bound.

use half::bf16;
use ndarray::Array2;
use reference::bound::ErrorBound;
use reference::compare::compare;

/// λ at which no independent, centred error is ever seen: the chance is 2·exp(−32) an element.
pub const NEVER: f64 = 8.0;

/// Fails unless every value is within its bound.
pub fn assert_within(got: &Array2<f64>, want: &Array2<f64>, error: &ErrorBound, what: &str) {
    let found = compare(got.view(), want.view(), error, NEVER);
    assert_eq!(found.faults, 0, "{what}: {:?}", found.worst);
}

/// In f64.
pub fn wide(values: &Array2<bf16>) -> Array2<f64> {
    values.mapv(f64::from)
}
