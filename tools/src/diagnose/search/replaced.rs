//! A tensor that is another layer's, transposed, rounded to few bits, or scaled by other scales than its blocks'.

use reference::weights::{LayerWeight, Projection, Weight};
use reference::{LayerSite, Site};

use super::{Bench, kinds, suspects};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::scales::ScaleChange;
use crate::diagnose::catalogue::tensors::{Grid, Projections, TensorChange, Tensors};

/// Other layers that are tried, the nearest first.
const LAYERS: usize = 32;

/// Every tensor on the way, and those of the experts together.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let mut all: Vec<Tensors> = Vec::new();
    for suspect in suspects::of(bench) {
        let tensors = match suspect.of {
            Weight::Layer(_, LayerWeight::Expert(..)) => continue,
            other => Tensors::One(other),
        };
        all.push(tensors);
    }
    if let Some(layer) = bench.site.layer() {
        let has = |site| bench.suspects.contains(&Site::Layer(layer, site));
        match (has(LayerSite::ExpertHidden), has(LayerSite::ExpertOutput)) {
            (true, true) => {
                all.extend([Projections::All, Projections::GateUp, Projections::Down].map(Tensors::Experts));
            }
            (true, false) => all.extend([Projections::All, Projections::GateUp].map(Tensors::Experts)),
            (false, true) => all.push(Tensors::Experts(Projections::Down)),
            (false, false) => {}
        }
    }
    let mut found = Vec::new();
    if config.quantization.is_some() {
        let experts = suspects::of(bench).into_iter().map(|suspect| suspect.of).filter(|of| !of.is_norm());
        let experts = experts.map(Tensors::One).filter(|one| !all.contains(one));
        let tensors: Vec<Tensors> =
            std::iter::once(Tensors::Quantized).chain(all.iter().copied()).chain(experts).collect();
        let ways = |tensors| ScaleChange::ALL.map(|change| TensorChange::Scales(tensors, change));
        found.extend(tensors.into_iter().flat_map(ways).map(|change| bench.assumed(&kinds::SCALES, change)));
    }
    for tensors in all {
        if let Some(layer) = bench.site.layer() {
            let mut others: Vec<usize> = (0..config.num_hidden_layers)
                .filter(|other| {
                    *other != layer && config.layer(*other).feed_forward == config.layer(layer).feed_forward
                })
                .collect();
            others.sort_by_key(|other| other.abs_diff(layer));
            let of = |other| bench.assumed(&kinds::OTHER_LAYER, TensorChange::OfLayer(tensors, other));
            found.extend(others.into_iter().take(LAYERS).map(of));
        }
        found.extend(
            [Grid::E4m3, Grid::Int8].map(|grid| bench.assumed(&kinds::ROUNDED, TensorChange::Rounded(tensors, grid))),
        );
        if let Tensors::One(of) = tensors
            && suspects::is_square(of, &config)
        {
            found.push(bench.assumed(&kinds::TRANSPOSED, TensorChange::Transposed(of)));
        }
    }
    for suspect in suspects::of(bench) {
        if let Weight::Layer(_, LayerWeight::Expert(_, Projection::Down)) = suspect.of
            && suspects::is_square(suspect.of, &config)
        {
            found.push(bench.assumed(&kinds::TRANSPOSED, TensorChange::Transposed(suspect.of)));
        }
    }
    // What the layer has no such tensor for is no hypothesis.
    found.retain(|assumed| bench.off_under(std::slice::from_ref(assumed)).is_ok());
    found
}
