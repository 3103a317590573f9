//! Mistakes in loading that concern whole tensors.

use reference::LayerSite::{self, InputNorm, KNorm, KProj, OProj, PostAttentionNorm, QNorm, QProj, VProj};
use reference::Site;
use reference::weights::LayerWeight;

use super::mistake::{Change, Clue, Mistake, given, layer};
use super::weights::WeightChange;

const RIGHT: &str = "every tensor of the checkpoint is loaded";
const ABOUT: &str = "a tensor's name was not matched, and the weight stayed 0";

/// A tensor that stays zero.
pub(super) const fn missing(
    touches: &'static [Site],
    ways: fn(&reference::config::Config, Clue) -> Vec<Change>,
) -> Mistake {
    Mistake { name: "missing_keys_ignored", about: ABOUT, right: RIGHT, visible: "always", touches, ways }
}

fn zero(weight: LayerWeight) -> Vec<Change> {
    vec![Change::Weights(WeightChange::Zero(weight))]
}

const fn one(site: LayerSite) -> [Site; 1] {
    [layer(site)]
}

pub(super) const MISTAKES: &[Mistake] = &[
    missing(&one(InputNorm), |_, _| zero(LayerWeight::InputNorm)),
    missing(&one(QProj), |_, _| zero(LayerWeight::QProj)),
    missing(&one(KProj), |_, _| zero(LayerWeight::KProj)),
    missing(&one(VProj), |_, _| zero(LayerWeight::VProj)),
    missing(&one(QNorm), |_, _| zero(LayerWeight::QNorm)),
    missing(&one(KNorm), |_, _| zero(LayerWeight::KNorm)),
    missing(&one(OProj), |_, _| zero(LayerWeight::OProj)),
    missing(&one(PostAttentionNorm), |_, _| zero(LayerWeight::PostAttentionNorm)),
    missing(&one(LayerSite::GateLogits), |_, _| zero(LayerWeight::Gate)),
    Mistake {
        name: "head_tied",
        about: "the head's weight is the embedding's",
        right: "the head has its own, where tie_word_embeddings is false",
        visible: "a head that is not tied",
        touches: &[Site::LmHead],
        ways: |config, _| given(!config.tie_word_embeddings, || vec![Change::Weights(WeightChange::TiedHead)]),
    },
];
