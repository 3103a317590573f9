//! A tensor that is another layer's, transposed, rounded to few bits, or scaled by other scales than its blocks'.

use reference::config::Config;
use reference::weights::{LayerWeight, VisionWeight, Weight};
use reference::{LayerSite, Site};

use super::{Bench, kinds, layers, suspects};
use crate::diagnose::catalogue::grid::Grid;
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::scales::ScaleChange;
use crate::diagnose::catalogue::tensors::{Projections, TensorChange, Tensors};

/// Experts whose tensors are looked at one by one, those first whose tokens are the furthest off.
const EXPERTS: usize = 3;

/// Every tensor on the way, and those of the experts together.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let mut all: Vec<Tensors> = Vec::new();
    let standing_out = suspects::standing_out(bench, EXPERTS);
    for suspect in suspects::of(bench) {
        match suspect.of {
            Weight::Layer(_, LayerWeight::Expert(e, _)) if !standing_out.contains(&e) => {}
            other => all.push(Tensors::One(other)),
        }
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
    let has = |at: LayerSite| bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, own) if *own == at));
    let mut add = |gate_up, down, of: fn(Projections) -> Tensors| {
        if has(gate_up) {
            let with_down = has(down).then_some(Projections::All);
            all.extend([Projections::GateUp].into_iter().chain(with_down).map(of));
        }
    };
    add(LayerSite::SharedGateUp, LayerSite::SharedDown, Tensors::Shared);
    add(LayerSite::DenseGateUp, LayerSite::DenseDown, Tensors::Dense);
    let mut found = Vec::new();
    if config.quantization.is_some() {
        let experts = suspects::of(bench).into_iter().map(|suspect| suspect.of).filter(|of| !of.is_norm());
        let experts = experts.map(Tensors::One).filter(|one| !all.contains(one));
        let tensors: Vec<Tensors> = std::iter::once(Tensors::All).chain(all.iter().copied()).chain(experts).collect();
        let ways = |tensors| ScaleChange::ALL.map(|change| TensorChange::Scales(tensors, change));
        found.extend(tensors.into_iter().flat_map(ways).map(|change| bench.assumed(&kinds::SCALES, change)));
    }
    let norms =
        if suspects::of(bench).iter().any(|suspect| suspect.of.is_norm()) { Some(Tensors::Norms) } else { None };
    let round = |tensors: Tensors| {
        Grid::all().map(move |grid| bench.assumed(&kinds::ROUNDED, TensorChange::Rounded(tensors, grid)))
    };
    found.extend(norms.into_iter().flat_map(round));
    for tensors in all {
        let others = others(bench, tensors, &config);
        found.extend(others.into_iter().map(|other| {
            let change = TensorChange::OfLayer(tensors, other);
            bench.assumed(&kinds::OTHER_LAYER, change)
        }));
        found.extend(round(tensors));
        let is_matrix = match tensors {
            Tensors::One(of @ Weight::Layer(..)) => suspects::dim(of, &config).is_some_and(|(rows, _)| rows > 1),
            Tensors::One(of) => suspects::is_square(of, &config),
            Tensors::Experts(which) => which == Projections::Down,
            _ => false,
        };
        found.extend(is_matrix.then(|| bench.assumed(&kinds::TRANSPOSED, TensorChange::Transposed(tensors))));
    }
    found
}

/// Other layers that have such tensors, the nearest first.
fn others(bench: &Bench<'_, '_>, tensors: Tensors, config: &Config) -> Vec<usize> {
    if let (Tensors::One(Weight::Vision(VisionWeight::Layer(layer, ..))), Some(vision)) = (tensors, &config.vision) {
        return layers::others(layer, vision.num_hidden_layers);
    }
    let is_of_layers = !matches!(tensors, Tensors::One(of) if !matches!(of, Weight::Layer(..)));
    let Some(layer) = bench.site.layer().filter(|_| is_of_layers) else { return Vec::new() };
    layers::alike(layer, config, |layer| layer.feed_forward).collect()
}
