//! What logits were stored in that are shown as log-probabilities, or as probabilities.
//!
//! ```text
//! ℓᵢ = zᵢ − λ
//! ```
//!
//! λ is a number of the row that nobody knows. A z of a narrow type lies on its grid, which is wider the larger z is: some λ brings all
//! of a row back on it, as none does with numbers of f32.

use fixtures::names::at::At;
use fixtures::names::measure::Measure;
use fixtures::names::sited::Sited;
use reference::Storage;

use crate::failure::Failure;

/// Rows that are looked at.
const ROWS: usize = 4;

/// Values of each of them.
const VALUES: usize = 256;

/// Roundings to f32 of ℓ and λ that lie between an engine's logits and what is shown, at most.
const STEPS: f64 = 8.0;

/// A grid that is not so many times as wide as values are uncertain says nothing.
const WIDER: f64 = 16.0;

/// Values that say something, at least.
const FEWEST: usize = 16;

/// Powers of two between which the first value's logit is looked for.
const POWERS: std::ops::Range<i32> = -6..7;

/// The narrow type that all rows' logits may have been stored in.
pub(super) fn storage(dump: &Sited, at: At) -> Result<Option<Storage>, Failure> {
    let Some(place) = dump.reading().values.get(&at) else { return Ok(None) };
    let tensor = dump.dump().tensor(&place.tensor)?;
    let width = tensor.shape().last().copied().unwrap_or(0);
    let measure = dump.measure(at);
    let (count, mut values) = (tensor.len() / width.max(1), vec![0.0_f64; VALUES.min(width)]);
    let rows: Vec<Vec<f64>> = (0..count.min(ROWS))
        .map(|row| {
            tensor.values_into(row * width, &mut values);
            let logs = values.iter().map(|x| if measure == Measure::Probs { x.ln() } else { *x });
            logs.filter(|log| log.is_finite()).collect()
        })
        .collect();
    let is_of = |storage: &Storage| !rows.is_empty() && rows.iter().all(|row| is_shifted(row, *storage));
    Ok([Storage::Bf16, Storage::F16].into_iter().find(is_of))
}

/// Whether some λ brings all of a row on a type's grid.
fn is_shifted(logs: &[f64], storage: Storage) -> bool {
    let Some((first, others)) = logs.split_first() else { return false };
    let numbers = POWERS.flat_map(|power| {
        let base = 2.0_f64.powi(power);
        let step = storage.spacing(base);
        std::iter::successors(Some(base), move |z| Some(z + step)).take_while(move |z| *z < 2.0 * base)
    });
    numbers.flat_map(|z| [z, -z]).any(|z| {
        let lambda = z - first;
        let mut telling = 0;
        let is_on = |log: &f64| {
            let z = log + lambda;
            let uncertain = STEPS * Storage::F32.unit_roundoff() * (log.abs() + first.abs() + lambda.abs());
            let tells = storage.spacing(z) >= WIDER * uncertain;
            telling += usize::from(tells);
            !tells || (z - storage.nearest(z)).abs() <= uncertain
        };
        others.iter().all(is_on) && telling >= FEWEST
    })
}
