//! Where a choice is off, and no number that could tell more is shown: changes of what is added to the scores for it alone; and of
//! what blocks are scored by, where these scores are off, too.

use reference::config::Config;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::{kinds, layers};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::tensors::{TensorChange, Tensors};
use crate::diagnose::catalogue::weights::WeightChange;

/// Changes of a choice of experts, or of blocks.
pub(super) fn search(site: Site, config: &Config) -> Vec<Assumed> {
    match site {
        Site::Layer(layer, LayerSite::GateExperts) => of_experts(layer, config),
        Site::Layer(_, LayerSite::BlockMax | LayerSite::BlockScore | LayerSite::Blocks) => of_blocks(),
        _ => Vec::new(),
    }
}

/// What blocks are scored by: absolute values, or keys that a cache holds too early.
fn of_blocks() -> Vec<Assumed> {
    let reading = |kind, field, value: &str| Assumed::everywhere(kind, Change::Reading(field, value.to_owned()));
    let held = ["unnormed", "unrotated", "projected"].map(|held| reading(&kinds::INDEX_CACHE, "index_cache", held));
    [reading(&kinds::INDEX_POOL, "msa_pool", "absolute")].into_iter().chain(held).collect()
}

/// The correction bias of every other layer of its kind.
fn of_experts(layer: usize, config: &Config) -> Vec<Assumed> {
    let bias = Tensors::One(Weight::Layer(layer, LayerWeight::CorrectionBias));
    let assumed = |other| {
        let change = Change::Weights(WeightChange::Tensor(TensorChange::OfLayer(bias, other)));
        Assumed::everywhere(&kinds::OTHER_LAYER, change).within(Some(vec![layer]))
    };
    layers::alike(layer, config, |layer| layer.feed_forward).map(assumed).collect()
}
