//! Holds what a device computed against the reference and its bound.

use ndarray::Array2;
use proptest::test_runner::TestCaseError;
use reference::Storage;
use reference::bound::ErrorBound;
use reference::compare::{Comparison, compare};

/// λ at which no independent, centred error is ever seen: the chance is 2·exp(−32) an element.
pub const NEVER: f64 = 8.0;

/// The comparison, with an error report if any element is outside the certain bound.
pub fn within(got: &Array2<f64>, want: &Array2<f64>, error: &ErrorBound) -> Result<Comparison, TestCaseError> {
    let found = compare(got.view(), want.view(), error, Storage::Real, NEVER);
    match found.worst {
        Some(worst) if found.faults > 0 => Err(TestCaseError::fail(format!("{} faults: {worst:?}", found.faults))),
        _ => Ok(found),
    }
}

/// The same, and no element may be outside λ·sigma either.
pub fn likely(got: &Array2<f64>, want: &Array2<f64>, error: &ErrorBound) -> Result<(), TestCaseError> {
    let found = within(got, want, error)?;
    if found.suspicious == 0 {
        return Ok(());
    }
    let all = || got.indexed_iter().map(|(i, got)| ((got - want[i]).abs() / error.sigma[i], i, *got));
    let worst = all().max_by(|a, b| a.0.total_cmp(&b.0)).expect("something is suspicious");
    Err(TestCaseError::fail(format!("{} are suspicious: {:?}, want {}", found.suspicious, worst, want[worst.1])))
}

/// The largest share of the certain bound that the errors take.
pub fn reached(got: &Array2<f64>, want: &Array2<f64>, error: &ErrorBound) -> f64 {
    compare(got.view(), want.view(), error, Storage::Real, NEVER).worst.map_or(0.0, |worst| worst.ratio)
}
