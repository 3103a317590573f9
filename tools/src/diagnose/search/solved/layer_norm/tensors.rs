//! The weights and biases of the tower's norms, and which of them a norm has.

use ndarray::{Array1, Zip};
use reference::Error;
use reference::site::{VisionLayerSite, VisionSite};
use reference::weights::{Part, VisionLayerWeight, VisionWeight, Weight};

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::listed::listed;
use crate::failure::Failure;

/// A norm of the tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    Pre,
    First(usize),
    Second(usize),
}

impl Module {
    pub(super) fn of(at: VisionSite) -> Option<Self> {
        match at {
            VisionSite::PreNorm => Some(Module::Pre),
            VisionSite::Layer(layer, VisionLayerSite::Norm1) => Some(Module::First(layer)),
            VisionSite::Layer(layer, VisionLayerSite::Norm2) => Some(Module::Second(layer)),
            _ => None,
        }
    }

    /// What it reads.
    pub(super) fn input(self) -> VisionSite {
        match self {
            Module::Pre => VisionSite::Embeddings,
            Module::First(0) => VisionSite::PreNorm,
            Module::First(layer) => VisionSite::Layer(layer - 1, VisionLayerSite::Output),
            Module::Second(layer) => VisionSite::Layer(layer, VisionLayerSite::Residual),
        }
    }

    fn weight(self, part: Part) -> Weight {
        Weight::Vision(match self {
            Module::Pre => VisionWeight::PreNorm(part),
            Module::First(layer) => VisionWeight::Layer(layer, VisionLayerWeight::Norm1, part),
            Module::Second(layer) => VisionWeight::Layer(layer, VisionLayerWeight::Norm2, part),
        })
    }

    /// Its weight and its bias.
    pub(super) fn tensors(self, bench: &Bench<'_, '_>) -> Result<[Array1<f64>; 2], Failure> {
        Ok([tensor(bench, self.weight(Part::Weight))?, tensor(bench, self.weight(Part::Bias))?])
    }

    /// Those of all norms, by their names.
    pub(super) fn all(bench: &Bench<'_, '_>) -> Result<Vec<(String, Array1<f64>)>, Failure> {
        let layers = bench.config().vision.map_or(0, |vision| vision.num_hidden_layers);
        let modules = (0..layers).flat_map(|layer| [Module::First(layer), Module::Second(layer)]);
        let all =
            modules.chain([Module::Pre]).flat_map(|module| [Part::Weight, Part::Bias].map(|part| module.weight(part)));
        all.map(|of| Ok((of.to_string(), tensor(bench, of)?))).collect()
    }
}

fn tensor(bench: &Bench<'_, '_>, of: Weight) -> Result<Array1<f64>, Failure> {
    bench.with_model(|model| {
        let w = model.weights().get(of).map_err(Error::from)?;
        Ok(w.dense::<f64>().into_iter().collect())
    })
}

/// What a tensor is, in words, if it is not the right one; numbers that are as near as `same` has it are the same, and where
/// they are `none` in all channels, there is no tensor.
pub(super) fn told(
    own: &Array1<f64>,
    right: &Array1<f64>,
    others: &[(String, Array1<f64>)],
    same: &Array1<f64>,
    none: f64,
) -> Option<String> {
    let width = right.len();
    let is = |of: &Array1<f64>| Zip::from(own).and(of).and(same).all(|a, b, same| (a - b).abs() <= *same);
    if is(right) {
        return None;
    }
    for value in [0.0, 1.0] {
        if is(&Array1::from_elem(width, value)) {
            let missing = if value == none { "missing: it is " } else { "" };
            return Some(format!("is {missing}{value} in all channels"));
        }
    }
    if let Some((name, _)) = others.iter().find(|(_, of)| of.len() == width && is(of)) {
        return Some(format!("is {name}"));
    }
    let rotated = |by: usize| (0..width).map(|i| right[(i + by) % width]).collect::<Array1<f64>>();
    if let Some(by) = (1..width).find(|by| is(&rotated(*by))) {
        return Some(format!("is that of the channel {by} behind, modulo {width}"));
    }
    let off: Vec<usize> = (0..width).filter(|j| (own[*j] - right[*j]).abs() > same[*j]).collect();
    if 2 * off.len() > width {
        return None;
    }
    let each = off.iter().map(|j| format!("{:.4} for {:.4} in channel {j}", own[*j], right[*j]));
    Some(format!("is another in {} of {width} channels: {}", off.len(), listed(each)))
}
