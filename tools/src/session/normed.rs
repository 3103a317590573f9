//! Lists of layers' outputs whose last one is behind the final norm, as the last of transformers' `hidden_states` is.
//!
//! ```text
//! yᵢ = wᵢ·xᵢ / √(mean x² + ε)        mean (y/w)² = 1, less a share of ε / mean x²
//! ```

use fixtures::activations::rows::Request;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use ndarray::ArrayView1;
use reference::config::Config;
use reference::semantics::NormWeight;
use reference::site::Extent;
use reference::weights::{Weight, Weights};
use reference::{LayerSite, Site};

use super::model::Model;
use crate::failure::Failure;

/// How far a mean of squares may be from 1: two roundings to bf16, of a value over its root and of its product with the weight, are 2⁻⁷
/// of a square, and ε may be as much of the mean.
const APART: f64 = 1.0 / 64.0;

/// Whether the last of a list is behind the final norm, and the first is not, of values that are read so.
pub(super) fn is_last(values: &Sited, model: &Model, config: &Config) -> Result<bool, Failure> {
    let weight = model.checkpoint.get(Weight::FinalNorm).map_err(reference::Error::from)?.dense::<f64>();
    let one = if config.norm_weight == NormWeight::OnePlus { 1.0 } else { 0.0 };
    let weight: Vec<f64> = weight.iter().map(|w| one + w).collect();
    let is_row = |row: ArrayView1<'_, f64>| {
        let squares = row.iter().zip(&weight).filter(|(_, w)| **w != 0.0).map(|(y, w)| (y / w).powi(2));
        let (count, sum) = squares.fold((0, 0.0), |(count, sum), square| (count + 1, sum + square));
        count > 0 && (sum / f64::from(count) - 1.0).abs() <= APART
    };
    let is_normed = |site: Site| {
        let Some(size) = values.sizes().first().copied() else { return false };
        let (at, batch) = (At { step: 0, site }, size.batch.unwrap_or(1));
        let Some(rows) = size.rows.filter(|rows| *rows > 0 && rows.is_multiple_of(batch)) else { return false };
        let all = values.of(Request::of_call(0, (batch, rows / batch)));
        let shown = if all.has(at) { all.matrix::<f64>(at, Extent::new(rows, rows)).ok() } else { None };
        shown.is_some_and(|shown| shown.ncols() == weight.len() && shown.rows().into_iter().all(is_row))
    };
    Ok(is_normed(Site::FinalNorm) && !is_normed(Site::Layer(0, LayerSite::Output)))
}
