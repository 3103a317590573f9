//! A norm that is applied to its own output.
//!
//! ```text
//! yᵢⱼ = wⱼ·ŷᵢⱼ / √(ε + (1/d)·Σₖ ŷᵢₖ²)        with ŷ what is right, the norm's output once
//! ```

use ndarray::{Array1, Array2, s};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::semantics::EpsPlace;
use reference::{ContractError, RoundingContract};

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Where all rows are so.
pub(super) fn solve(bench: &Bench<'_, '_>, w: &Array1<f64>) -> Option<Solution> {
    let again = |values: &Array2<f64>, contract: RoundingContract| -> Result<Array2<f64>, ContractError> {
        let rms = if bench.site.has_heads() { contract.qk_rms } else { contract.rms };
        let norm = RmsNorm::under(&RoundingContract { rms, ..contract }, bench.config().rms_norm_eps, EpsPlace::Inside);
        let mut again = Array2::zeros(values.dim());
        for first in (0..values.ncols()).step_by(w.len()) {
            let of_head = s![.., first..first + w.len()];
            again.slice_mut(of_head).assign(&rms_norm(&norm, values.slice(of_head), w.view())?);
        }
        Ok(again)
    };
    let values = again(&bench.ideal, RoundingContract::IDEAL).ok()?;
    let is = |row: usize| {
        let (own, apart) = (bench.candidate.row(row), &bench.candidate.row(row) - &values.row(row));
        apart.dot(&apart).sqrt() <= bench.rounding() * own.dot(&own).sqrt()
    };
    if !(0..values.nrows()).all(is) {
        return None;
    }
    let said = "the norm is applied twice: what it gives is normed, and multiplied by its weight, again".to_owned();
    let stored = again(&bench.twin.computed, bench.contract()).ok()?;
    Some(Solution::new(vec![said], values).or_stored(bench, stored))
}
