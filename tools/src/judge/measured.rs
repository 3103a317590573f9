//! The reference's logits as a candidate shows its own: as log-probabilities, as probabilities, or less a number of each row.
//!
//! ```text
//! ℓᵢ = zᵢ − λ,  λ = ln Σⱼ exp zⱼ        pᵢ = exp ℓᵢ        or λ = Σⱼ zⱼ / V, or λ = maxⱼ zⱼ
//! ```
//!
//! Where each zⱼ is off by eⱼ at most, λ is off by max eⱼ at most, and by √(Σ pⱼ² σⱼ²) ≤ max σⱼ typically. An engine computes this in
//! f32: a sum of V positive terms in any order is within V·u of itself, and so is its logarithm of what it is; each difference is rounded
//! once more. A row's λ is one number, and moves the whole row.

use fixtures::names::measure::Measure;
use ndarray::{Array2, Axis, Zip};
use reference::bound::ErrorBound;
use reference::{Rounding, Storage, Tracked};

/// Roundings of what an engine computes of a logit and its row's λ: differences from the largest, exponentials, logarithms.
const STEPS: f64 = 8.0;

/// What a candidate's values in another measure are stored in: the coarsest type that holds all.
pub(super) fn stored(candidate: &Array2<f64>) -> Storage {
    let holds = |storage: &Storage| candidate.iter().all(|x| storage.holds(*x));
    [Storage::Bf16, Storage::F16, Storage::F32].into_iter().find(holds).unwrap_or(Storage::Real)
}

/// Logits as a candidate shows its own, which are stored in the last storage; `stored` says how logits are rounded before.
pub(super) fn measured(of: Measure, logits: Tracked<f64>, stored: Rounding, shown: Storage) -> Tracked<f64> {
    let is_run = logits.error.is_none();
    let value = if is_run { logits.value.mapv_into(|z| stored.round(z)) } else { logits.value };
    let mut logs = value;
    for mut row in logs.rows_mut() {
        let largest = row.iter().fold(f64::NEG_INFINITY, |most, z| most.max(*z));
        let taken = match of {
            Measure::LessMean => row.sum() / row.len() as f64,
            Measure::LessLargest => largest,
            Measure::Logits | Measure::LogProbs | Measure::SomeLogProbs | Measure::Probs => {
                largest + row.iter().map(|z| (z - largest).exp()).sum::<f64>().ln()
            }
        };
        row.mapv_inplace(|z| z - taken);
    }
    let own = arithmetic(&logs);
    let Some(error) = logits.error else {
        let strayed = Tracked { value: logs, error: Some(own) }.strayed(stored.mode).value;
        let told = if of == Measure::Probs { strayed.mapv_into(f64::exp) } else { strayed };
        // Another run that draws its errors would be shown in the same type.
        let shown = Rounding { storage: shown, ..stored };
        return Tracked::plain(if stored.mode.draws() { told.mapv_into(|x| shown.round(x)) } else { told });
    };
    let mut error = error.plus(&own);
    for (mut certain, mut sigma) in error.certain.rows_mut().into_iter().zip(error.sigma.rows_mut()) {
        let [most, usual] = [&certain, &sigma].map(|row| row.iter().fold(0.0_f64, |most, e| most.max(*e)));
        certain += most;
        sigma.mapv_inplace(|sigma| sigma.hypot(usual));
    }
    if of != Measure::Probs {
        return Tracked { value: logs, error: Some(error) }.with_rounding(shown);
    }
    Zip::from(&mut error.certain).and(&mut error.sigma).and(&logs).for_each(|certain, sigma, log| {
        (*certain, *sigma) = (log.exp() * certain.exp_m1(), log.exp() * *sigma);
    });
    Tracked { value: logs.mapv_into(f64::exp), error: Some(error.or_infinite()) }.with_rounding(shown)
}

/// What is computed of the tokens that a candidate shows: where it has −∞ nothing is compared.
pub(super) fn of_shown(mut computed: Tracked<f64>, candidate: &Array2<f64>) -> Tracked<f64> {
    for (at, _) in candidate.indexed_iter().filter(|(_, log)| **log == f64::NEG_INFINITY) {
        computed.value[at] = f64::NEG_INFINITY;
        if let Some(error) = &mut computed.error {
            (error.certain[at], error.sigma[at]) = (0.0, 0.0);
        }
    }
    computed
}

/// The error of an engine's own arithmetic, in f32, from logits to log-probabilities.
fn arithmetic(logs: &Array2<f64>) -> ErrorBound {
    let (unit, count) = (Storage::F32.unit_roundoff(), logs.len_of(Axis(1)) as f64);
    let of = |sum: f64| logs.mapv(|log| if log.is_finite() { unit * (sum + STEPS * (1.0 + log.abs())) } else { 0.0 });
    ErrorBound { certain: of(count), sigma: of(count.sqrt()), carried: 0 }
}
