//! Where a choice is off, and no number that could tell more is shown: changes of what is added to the scores for it alone.

use reference::config::Config;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::{kinds, layers};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::tensors::{TensorChange, Tensors};
use crate::diagnose::catalogue::weights::WeightChange;

/// The correction bias of every other layer of its kind.
pub(super) fn search(site: Site, config: &Config) -> Vec<Assumed> {
    let Site::Layer(layer, LayerSite::GateExperts) = site else { return Vec::new() };
    let bias = Tensors::One(Weight::Layer(layer, LayerWeight::CorrectionBias));
    let assumed = |other| {
        let change = Change::Weights(WeightChange::Tensor(TensorChange::OfLayer(bias, other)));
        Assumed::everywhere(&kinds::OTHER_LAYER, change).within(Some(vec![layer]))
    };
    layers::alike(layer, config, |layer| layer.feed_forward).map(assumed).collect()
}
