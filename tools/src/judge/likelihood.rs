//! What logits that are off do to the probabilities of the next token.
//!
//! Logits zᵢ + Dᵢ instead of zᵢ make q of p, and KL(p‖q) ≤ (max D − min D)² / 8 (Hoeffding's lemma). So a bound of each
//! logit bounds the divergence.

use ndarray::{Array2, ArrayView1};

use crate::judge::verdict::Likelihood;

/// Of a row of logits a token, each of which may be off by `bound`.
pub(super) fn likelihood(
    candidate: &Array2<f64>,
    reference: &Array2<f64>,
    bound: impl Fn((usize, usize)) -> f64,
) -> Likelihood {
    let mut found = Likelihood { divergence: 0.0, bound: 0.0 };
    for (token, (candidate, reference)) in candidate.rows().into_iter().zip(reference.rows()).enumerate() {
        let largest_two = (0..reference.len())
            .map(|i| bound((token, i)))
            .fold([0.0_f64; 2], |[first, second], e| if e > first { [e, first] } else { [first, second.max(e)] });
        found.divergence = largest(found.divergence, divergence(reference, candidate));
        found.bound = largest(found.bound, largest_two.iter().sum::<f64>().powi(2) / 8.0);
    }
    found
}

/// KL(p‖q) for p = softmax(z) and q = softmax(y), in nats; tokens that are not shown have z = y = −∞ and no part in it.
fn divergence(z: ArrayView1<'_, f64>, y: ArrayView1<'_, f64>) -> f64 {
    let (of_z, of_y) = (log_sum_exp(z), log_sum_exp(y));
    let shown = z.iter().zip(y).filter(|(z, _)| **z > f64::NEG_INFINITY || z.is_nan());
    shown.map(|(z, y)| (z - of_z).exp() * ((z - of_z) - (y - of_y))).sum()
}

/// ln Σ exp zᵢ.
fn log_sum_exp(z: ArrayView1<'_, f64>) -> f64 {
    let top = z.fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    top + z.iter().map(|z| (z - top).exp()).sum::<f64>().ln()
}

/// The larger, or NaN if one is.
fn largest(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}
