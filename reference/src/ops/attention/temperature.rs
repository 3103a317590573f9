//! Queries times a factor that grows with their position, as Llama 4 has them and MiniMax does not.

use ndarray::{Array2, ArrayView2};

use crate::bound::ErrorBound;
use crate::semantics::Temperature;
use crate::tracked::Tracked;
use crate::{Real, RoundingContract};

/// Queries \[n, H·d\] of positions from `first` on, each times its factor, rounded as they are stored.
pub fn tempered<T: Real>(
    contract: &RoundingContract,
    temperature: Temperature,
    q: ArrayView2<'_, T>,
    first: usize,
) -> Array2<T> {
    let stored = contract.stored();
    Array2::from_shape_fn(q.dim(), |(i, j)| stored.round(q[[i, j]] * T::of(temperature.of(first + i))))
}

/// The error of the queries times their factors, the product's own, and its rounding.
pub fn bound(
    contract: &RoundingContract,
    temperature: Temperature,
    q: &Tracked<f64>,
    first: usize,
    y: &Array2<f64>,
) -> ErrorBound {
    let mut error = q.error_or_exact();
    let factor = |i: usize| temperature.of(first + i).abs();
    for (((i, j), e), y) in error.certain.indexed_iter_mut().zip(y) {
        // The factor is a logarithm in f32.
        let own = 8.0 * contract.unit() * (y.abs() + *e * factor(i));
        *e = *e * factor(i) + own;
        error.sigma[[i, j]] = (error.sigma[[i, j]] * factor(i)).hypot(own).min(*e);
    }
    error.rounded(y.view(), contract.stored().storage)
}
