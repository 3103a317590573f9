//! Whole layers in each other's place.

use reference::config::{Config, Layer};
use reference::{LayerSite, Site};

use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::tensors::{TensorChange, Tensors};

/// Other layers that are tried, the nearest first.
pub(super) const OTHERS: usize = 32;

/// The site's layer exchanged with another of its kind, or a copy of it.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let Some(layer) = bench.site.layer() else { return Vec::new() };
    let config = bench.config();
    let tried = |other| {
        let (a, b) = (layer.min(other), layer.max(other));
        [
            bench.assumed(&kinds::LAYERS, TensorChange::Layers(a, b)),
            bench.assumed(&kinds::OTHER_LAYER, TensorChange::OfLayer(Tensors::All, other)),
        ]
    };
    alike(layer, &config, |layer| layer).flat_map(tried).collect()
}

/// The layer of a first norm run in the place of another of its kind, or all in reverse order: what it shows is not computed from
/// what goes into it.
pub(super) fn in_other_places(site: Site, config: &Config) -> Vec<Assumed> {
    let Site::Layer(layer, LayerSite::InputNorm) = site else { return Vec::new() };
    let layers = config.num_hidden_layers;
    let reverse: Vec<(usize, usize)> = (0..layers / 2).map(|layer| (layer, layers - 1 - layer)).collect();
    let are_alike = reverse.iter().all(|(a, b)| config.layer(*a) == config.layer(*b));
    let reverse = Some(reverse).filter(|pairs| are_alike && pairs.len() > 1);
    let pairs = alike(layer, config, |layer| layer).map(|other| vec![(layer.min(other), layer.max(other))]);
    let order = |pairs| Assumed::everywhere(&kinds::LAYER_ORDER, Change::Order(pairs));
    pairs.chain(reverse).map(order).collect()
}

/// Other layers of so many, the nearest first.
pub(super) fn others(layer: usize, layers: usize) -> Vec<usize> {
    let mut others: Vec<usize> = (0..layers).filter(|other| *other != layer).collect();
    others.sort_by_key(|other| other.abs_diff(layer));
    others.truncate(OTHERS);
    others
}

/// Other text layers that are like one in some respect, the nearest first.
pub(super) fn alike<'c, P: PartialEq + 'c>(
    layer: usize,
    config: &'c Config,
    of: impl Fn(Layer) -> P + 'c,
) -> impl Iterator<Item = usize> + 'c {
    let own = of(config.layer(layer));
    others(layer, config.num_hidden_layers).into_iter().filter(move |other| of(config.layer(*other)) == own)
}
