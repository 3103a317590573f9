//! A tensor that has the values of another, of a part of another, or of a part of its own again and again; two that have each
//! other's; a norm's weight that is taken with one too many, or too few.

use std::collections::BTreeSet;

use reference::config::Config;
use reference::semantics::NormWeight;
use reference::weights::{LayerWeight, Part, VisionWeight, Weight, inventory};

use super::suspects;
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::names;
use crate::diagnose::catalogue::taken::Taken;
use crate::diagnose::catalogue::tensors::TensorChange;

/// Layers whose norms the last one may have.
const LAYERS: usize = 4;

/// Every tensor on the way, and each of its layer that it could be taken from.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let (mut found, mut exchanged) = (Vec::new(), Vec::new());
    for of in suspects::of(bench).into_iter().map(|suspect| suspect.of) {
        if is_compared(of) {
            let all = sources(of, &config).into_iter().map(TensorChange::Taken);
            found.extend(all.map(|change| bench.assumed(&kinds::TAKEN, change)));
            let whole = |taken: &Taken| taken.of != taken.from && taken.period == taken.whole;
            let others = sources(of, &config).into_iter().filter(whole).map(|taken| taken.from);
            let both = others.map(|from| TensorChange::Exchanged(of.min(from), of.max(from)));
            exchanged.extend(both.filter(|change| !exchanged.contains(change)).collect::<Vec<_>>());
        }
        if of == Weight::FinalNorm {
            found.extend(norms(&config).map(|taken| bench.assumed(&kinds::TAKEN, TensorChange::Taken(taken))));
        }
        if of.is_norm() {
            let right = u8::from(config.norm_weight == NormWeight::OnePlus);
            let others = (0..=right + 1).filter(|ones| *ones != right);
            let ways =
                others.flat_map(|ones| [true, false].map(|stored| TensorChange::Ones(of, [ones, right], stored)));
            found.extend(ways.map(|change| bench.assumed(&kinds::PLUS_ONE, change)));
        }
    }
    found.extend(exchanged.into_iter().map(|change| bench.assumed(&kinds::EXCHANGED, change)));
    found
}

/// The norms of layers that the last one may have in its place: those of the last layers.
fn norms(config: &Config) -> impl Iterator<Item = Taken> {
    let (of, width) = (Weight::FinalNorm, config.hidden_size);
    let layers = (0..config.num_hidden_layers).rev().take(LAYERS);
    let each =
        layers.flat_map(|layer| [LayerWeight::InputNorm, LayerWeight::PostAttentionNorm].map(|own| (layer, own)));
    each.map(move |(layer, own)| Taken { of, from: Weight::Layer(layer, own), period: width, whole: width })
}

/// Experts' tensors are found as such.
fn is_compared(of: Weight) -> bool {
    match of {
        Weight::Layer(_, inner) => !matches!(inner, LayerWeight::Expert(..)),
        Weight::Vision(VisionWeight::Layer(_, _, part)) => part == Part::Weight,
        _ => false,
    }
}

fn sources(of: Weight, config: &Config) -> Vec<Taken> {
    let Some(dim) = suspects::dim(of, config) else { return Vec::new() };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (from, other) in inventory(config) {
        let Some(from) = beside(of, from).filter(|from| is_compared(*from) && seen.insert(*from)) else { continue };
        let is_itself = names::is(of, from);
        if is_itself && of.is_norm() && config.head_dim < dim.1 {
            found.push(Taken { of, from, period: config.head_dim, whole: dim.1 });
        } else if !is_itself && of.is_norm() && from.is_norm() && other.1 >= dim.1 {
            found.push(Taken { of, from, period: dim.1, whole: other.1 });
        } else if !is_itself && !of.is_norm() && !from.is_norm() && other == dim {
            // A vector's channels are its columns.
            let channels = |(rows, columns): (usize, usize)| if rows <= 1 { columns } else { rows };
            found.push(Taken { of, from, period: channels(dim), whole: channels(other) });
        }
    }
    found
}

/// A weight of the model that stands beside another: in the text model, any layer's for its name; in the tower, one of its layer.
fn beside(of: Weight, other: Weight) -> Option<Weight> {
    match (of, other) {
        (Weight::Layer(..), Weight::Layer(..)) => Some(names::in_layer(other, 0)),
        (Weight::Vision(VisionWeight::Layer(layer, ..)), Weight::Vision(VisionWeight::Layer(own, ..))) => {
            (own == layer).then_some(other)
        }
        _ => None,
    }
}
