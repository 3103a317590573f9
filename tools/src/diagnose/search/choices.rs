//! Where a choice is off, and no number that could tell more is shown: changes of what is added to the scores for it alone; and of
//! what blocks are scored by, where these scores are off, too.

use reference::config::Config;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::{attending, bias, kinds, layers};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::tensors::{TensorChange, Tensors};
use crate::diagnose::catalogue::weights::WeightChange;

/// Changes of a choice of experts, or of blocks, that is at a site or on the way there.
pub(super) fn search(site: Site, suspects: &[Site], config: &Config) -> Vec<Assumed> {
    use LayerSite::{BlockMax, BlockScore, Blocks, GateExperts};
    let is_of_blocks = |site: &Site| matches!(site, Site::Layer(_, BlockMax | BlockScore | Blocks));
    match site {
        Site::Layer(layer, GateExperts) => of_experts(layer, config),
        _ if suspects.iter().any(is_of_blocks) => of_blocks(),
        _ => Vec::new(),
    }
}

/// What blocks are scored by: absolute values, other keys, or keys that a cache holds too early or in fewer bits; or whose they
/// are.
fn of_blocks() -> Vec<Assumed> {
    let reading = |kind, field, value: &str| Assumed::everywhere(kind, Change::Reading(field, value.to_owned()));
    let held = ["unnormed", "unrotated", "projected"].map(|held| reading(&kinds::INDEX_CACHE, "index_cache", held));
    let shifted = ["-1", "1"].map(|by| reading(&kinds::INDEX_SHIFT, "index_shift", by));
    let narrow = ["e4m3", "bf16"].map(|to| reading(&kinds::INDEX_NARROW, "index_cache_type", to));
    let absolute = reading(&kinds::INDEX_POOL, "msa_pool", "absolute");
    [absolute].into_iter().chain(held).chain(shifted).chain(narrow).chain(attending::of_tiles()).collect()
}

/// The correction bias of every other layer of its kind, or in another order.
fn of_experts(layer: usize, config: &Config) -> Vec<Assumed> {
    let bias = Tensors::One(Weight::Layer(layer, LayerWeight::CorrectionBias));
    let assumed = |other| {
        let change = Change::Weights(WeightChange::Tensor(TensorChange::OfLayer(bias, other)));
        Assumed::everywhere(&kinds::OTHER_LAYER, change).within(Some(vec![layer]))
    };
    let others = layers::alike(layer, config, |layer| layer.feed_forward).map(assumed);
    others.chain(bias::of_layer(layer, config)).collect()
}
