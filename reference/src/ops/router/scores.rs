//! What routers make scores of logits by, and how far that is off.

use ndarray::{Array2, ArrayViewMut1, Zip};

use crate::Real;
use crate::bound::ErrorBound;
use crate::bound::elementary::EXPONENTIAL;
use crate::storage::FLUSHED;
use crate::tracked::Tracked;

/// √ln(1 + e^z).
pub(super) fn sqrt_softplus<T: Real>(z: T) -> T {
    let tail = (-z.abs()).map_once(f64::exp);
    (z.max(T::zero()) + tail.map_once(f64::ln_1p)).sqrt()
}

/// Of a row.
pub(in crate::ops) fn softmax<T: Real>(mut row: ArrayViewMut1<'_, T>) {
    let top = row.iter().copied().fold(T::neg_infinity(), T::max);
    row.mapv_inplace(|z| (z - top).exp());
    let sum = row.iter().fold(T::zero(), |sum, &r| sum + r);
    row.mapv_inplace(|r| r / sum);
}

/// A σ that is made of a hyperbolic tangent, (1 + tanh(z/2))/2, is off by so many u, however small it is: half of the tangent's two
/// and of the sum's one. ONNX Runtime's, a quotient of polynomials and ½, was within this where it was measured.
const BY_TANGENT: f64 = 1.5;

/// Of σ(z): σ' ≤ σ(1 − σ) at the nearer end of the interval, and the exponential's error, of which (1 − σ) arrives: its own,
/// and where it is one to base 2, u·|z| for its argument's rounding and as much for that of log₂e; or the tangent's.
pub(super) fn bound_sigmoid(unit: f64, z: &Array2<f64>, input: ErrorBound, r: &Array2<f64>) -> ErrorBound {
    let mut error = input.clone();
    Zip::indexed(&mut error.certain).and(&mut error.sigma).and(z).for_each(|i, certain, sigma, &z| {
        let delta = input.certain[i];
        let nearest = (z.abs() - delta).max(0.0);
        let tail = 1.0 / (1.0 + nearest.exp());
        let slope = (tail * (1.0 - tail)).min(0.25);
        let own = unit * ((1.0 - r[i] + slope * delta) * (EXPONENTIAL + 2.0 * (z.abs() + delta)) + 3.0);
        let tangent = BY_TANGENT * unit;
        *certain = slope * delta + (own * (r[i] + slope * delta)).max(tangent) + FLUSHED;
        *sigma = (slope * input.sigma[i]).hypot(((own * r[i]).max(tangent) + FLUSHED) / 3.0_f64.sqrt()).min(*certain);
    });
    error
}

/// d/dz √softplus(z) = σ(z) / (2·√softplus(z)). σ and the root both grow with z: from z − δ to z + δ the slope is at most σ at
/// the right end over twice the root at the left one. It is below 1 everywhere, and 1 is taken where that quotient is more, or
/// has no value because both are 0. Own roundings, in shares of softplus and so of twice what they are of its root: of
/// exponential and logarithm, each within 4·u of itself; u·|z| for the exponential's argument, −|z|; 3·u for the sum and the
/// root. What is flushed of softplus, up to F, is up to √F of its root: |√a − √b| ≤ √|a − b|.
pub(super) fn bound_sqrt_softplus(unit: f64, z: &Array2<f64>, input: ErrorBound, r: &Array2<f64>) -> ErrorBound {
    let mut error = input.clone();
    Zip::indexed(&mut error.certain).and(&mut error.sigma).and(z).for_each(|i, certain, sigma, &z| {
        let delta = input.certain[i];
        let slope = ((z + delta).sigmoid() / (2.0 * sqrt_softplus(z - delta))).min(1.0);
        let own = unit * (2.0 * EXPONENTIAL + z.abs() + delta + 3.0);
        *certain = slope * delta + own * (r[i] + slope * delta) + FLUSHED.sqrt();
        *sigma = (slope * input.sigma[i]).hypot((own * r[i] + FLUSHED.sqrt()) / 3.0_f64.sqrt()).min(*certain);
    });
    error
}

/// Of σ(z) + b and of σ(z + b), whose slope is up to a quarter: b is not known here. Own roundings: the argument's, of which a
/// quarter arrives; with s = 1 − σ(t) and |t|·σ(t)·s < 1, 4·u of the exponential's and 3·u of sum and quotient.
pub(super) fn bound_sigmoid_of_sum(unit: f64, z: &Tracked<f64>) -> ErrorBound {
    let mut error = z.error_or_exact();
    Zip::from(&mut error.certain).and(&mut error.sigma).and(&z.value).for_each(|certain, sigma, z| {
        let own = unit * ((z.abs() + *certain + 1.0) / 4.0 + EXPONENTIAL + 4.0);
        *certain = *certain / 4.0 + own;
        *sigma = (*sigma / 4.0).hypot(own / 3.0_f64.sqrt()).min(*certain);
    });
    error
}
