//! Query temperature: multiplies queries by a factor that grows with their position.
//!
//! ```text
//! yᵢⱼ = τ(f + i)·qᵢⱼ        τ(t) = 1 + β·ln(1 + ⌊(t + a)/m⌋)
//! ```
//!
//! - Shapes: q and y \[n, H·d\], whose rows are at positions f, f + 1, ….
//! - Dtypes: q and y bf16; τ and the product f32.
//! - Rounding: R1 at y.
//! - Errors: none; an m of 0 is taken for 1.
//! - Variants: a is what the first position counts as, 1 or 0.
//! - Source: a slip of ports: MiniMax has none; Llama 4's attention has it with a = 1.

use ndarray::{Array2, ArrayView2};

use crate::bound::ErrorBound;
use crate::semantics::Temperature;
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{Real, RoundingContract};

/// y of q, whose first row is at position `first`.
pub fn tempered<T: Real>(
    contract: &RoundingContract,
    temperature: Temperature,
    q: ArrayView2<'_, T>,
    first: usize,
) -> Array2<T> {
    let stored = contract.stored();
    Array2::from_shape_fn(q.dim(), |(i, j)| stored.round(q[[i, j]] * T::of(temperature.of(first + i)))) // R1
}

/// The error of q times τ; 8·u of 1 + |τ − 1| for τ, which takes a logarithm in f32 and may cancel, and for the product,
/// which may be flushed; then R1.
pub fn bound(
    contract: &RoundingContract,
    temperature: Temperature,
    q: &Tracked<f64>,
    first: usize,
    y: &Array2<f64>,
) -> ErrorBound {
    let mut error = q.error_or_exact();
    for (((i, j), e), q) in error.certain.indexed_iter_mut().zip(&q.value) {
        let factor = temperature.of(first + i);
        let own = 8.0 * contract.unit() * (1.0 + (factor - 1.0).abs()) * (q.abs() + *e) + FLUSHED;
        *e = *e * factor.abs() + own;
        error.sigma[[i, j]] = (error.sigma[[i, j]] * factor.abs()).hypot(own).min(*e);
    }
    error.rounded(y.view(), contract.stored().storage)
}
