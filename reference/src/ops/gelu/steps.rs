//! GELU by a sigmoid as modules of their own compute it, each of which stores what it gives.
//!
//! ```text
//! z = ρ(α·x)        s = ρ(σ(z))        a = x·s        ρ: to bf16
//! ```
//!
//! - Shapes: x and a \[n, d\].
//! - Dtypes: x, z, s and a bf16; all steps f32.
//! - Rounding: R1 at z, R2 at s, which are performed; R3 at a.
//! - Errors: none.
//! - Source: a slip of ports: `QuickGELUActivation` in transformers 5.23.

use ndarray::{Array2, Zip};

use super::{FUNCTION, QUICK};
use crate::bound::ErrorBound;
use crate::run::Run;
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{Real, Storage};

/// σ's error in u of 1, as `gelu` has that of 2·σ − 1.
const SIGMOID: f64 = 0.5 * FUNCTION[2];

/// A sigmoid's steepest slope.
const STEEPEST: f64 = 0.25;

/// a of x.
pub fn quick<T: Real>(x: &Tracked<T>, run: &Run<'_, T>) -> Tracked<T> {
    let scaled = x.value.mapv(|x| x * T::of(QUICK));
    let z = run.tracked(scaled, |c, z| {
        let off = |x: f64, e: f64| QUICK * e + 2.0 * c.unit() * QUICK * (x.abs() + e) + FLUSHED;
        of_one(&x.widened(), z, off)
    });
    let z = z.performed(Storage::Bf16); // R1
    let s = run.tracked(z.value.mapv(T::sigmoid), |c, s| {
        let own = SIGMOID * c.unit();
        of_one(&z.widened(), s, |_, e| STEEPEST * e + own + FLUSHED)
    });
    let s = s.performed(Storage::Bf16); // R2
    let stored = run.contract.stored();
    let a = Zip::from(&x.value).and(&s.value).map_collect(|&x, &s| stored.round(x * s)); // R3
    run.tracked(a, |c, a| {
        let (x, s) = (x.widened(), s.widened());
        let (of_x, of_s) = (x.error_or_exact(), s.error_or_exact());
        let mut error = ErrorBound::exact(a.dim());
        error.carried = of_x.carried;
        for (i, certain) in error.certain.indexed_iter_mut() {
            let (x, s, e, f) = (x.value[i].abs(), s.value[i].abs(), of_x.certain[i], of_s.certain[i]);
            *certain = x * f + s * e + e * f + c.unit() * (x + e) * (s + f) + FLUSHED;
        }
        error.sigma.assign(&error.certain);
        error.rounded(a.view(), c.stored().storage)
    })
}

/// What each element is off, of x and its error.
fn of_one(x: &Tracked<f64>, y: &Array2<f64>, off: impl Fn(f64, f64) -> f64) -> ErrorBound {
    let input = x.error_or_exact();
    let mut error = ErrorBound::exact(y.dim());
    error.carried = input.carried;
    let elements = Zip::from(&mut error.certain).and(&mut error.sigma).and(&x.value).and(&input.certain);
    elements.for_each(|certain, sigma, &x, &e| {
        *certain = off(x, e);
        *sigma = *certain;
    });
    error
}
