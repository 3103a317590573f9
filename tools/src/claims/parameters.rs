//! Parameters by part, counted in the inventory that checkpoints are read with.

use reference::weights::{LayerWeight, MtpWeight, VisionWeight, Weight};
use serde::Serialize;
use strum::{Display, EnumIter, IntoEnumIterator};

use super::hyperparameters::Hyperparameters;

/// What a weight belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display, EnumIter)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum Part {
    /// Token embedding.
    Embedding,
    /// Projections to queries, keys and values, the output projection, and the norms of queries and keys.
    Attention,
    /// The index branch: its projections and norms.
    #[strum(to_string = "index branch")]
    Index,
    /// Routers, with their correction biases.
    Router,
    /// Experts that tokens are sent to.
    #[strum(to_string = "routed experts")]
    RoutedExperts,
    /// Experts that all tokens share.
    #[strum(to_string = "shared experts")]
    SharedExperts,
    /// Networks of dense layers.
    #[strum(to_string = "dense layers")]
    Dense,
    /// Norms of the residual stream.
    Norms,
    /// LM head.
    #[strum(to_string = "LM head")]
    LmHead,
    /// Vision tower, biases and norms included.
    #[strum(to_string = "vision tower")]
    VisionTower,
    /// Projector from patches to tokens, biases included.
    Projector,
}

impl Part {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Part> {
        Part::iter()
    }

    /// The part that a weight belongs to.
    pub fn of(weight: Weight) -> Self {
        use LayerWeight as L;
        use MtpWeight as M;
        match weight {
            Weight::Embedding | Weight::Mtp(_, M::BothProj | M::HiddenProj) => Part::Embedding,
            Weight::LmHead | Weight::Mtp(_, M::Head) => Part::LmHead,
            Weight::FinalNorm
            | Weight::Layer(_, L::InputNorm | L::PostAttentionNorm)
            | Weight::Mtp(_, M::EmbeddingNorm | M::HiddenNorm | M::FinalNorm) => Part::Norms,
            Weight::Layer(_, L::QProj | L::KProj | L::VProj | L::OProj | L::QNorm | L::KNorm) => Part::Attention,
            Weight::Layer(_, L::IndexQProj | L::IndexKProj | L::IndexQNorm | L::IndexKNorm) => Part::Index,
            Weight::Layer(_, L::Gate | L::CorrectionBias) => Part::Router,
            Weight::Layer(_, L::Expert(..)) => Part::RoutedExperts,
            Weight::Layer(_, L::Shared(_)) => Part::SharedExperts,
            Weight::Layer(_, L::Dense(_)) => Part::Dense,
            Weight::Vision(VisionWeight::Projector(..)) => Part::Projector,
            Weight::Vision(_) => Part::VisionTower,
            Weight::Mtp(_, M::Layer(inner)) => Part::of(Weight::Layer(0, inner)),
        }
    }

    /// Whether it belongs to what sees, which text alone does not run through.
    pub fn is_vision(self) -> bool {
        matches!(self, Part::VisionTower | Part::Projector)
    }
}

impl Hyperparameters {
    /// Elements of the weights that are chosen.
    pub fn count(&self, is_chosen: impl Fn(Weight) -> bool) -> usize {
        self.weights().filter(|(weight, _)| is_chosen(*weight)).map(|(_, elements)| elements).sum()
    }

    /// Parameters of a part.
    pub fn part(&self, part: Part) -> usize {
        self.count(|weight| Part::of(weight) == part)
    }

    /// Parameters of some parts together.
    pub fn parts(&self, parts: &[Part]) -> usize {
        self.count(|weight| parts.contains(&Part::of(weight)))
    }

    /// Parameters of all parts.
    pub fn total(&self) -> usize {
        self.count(|_| true)
    }

    /// Parameters of a part that one text token is computed with: of the embedding its row (all of it where it is the
    /// head, too), of the experts k of E, of what sees none.
    pub fn active_part(&self, part: Part) -> usize {
        let config = &self.config;
        let all = self.part(part);
        match part {
            Part::Embedding if !config.tie_word_embeddings => config.hidden_size,
            Part::RoutedExperts => all / config.num_local_experts * config.num_experts_per_tok,
            part if part.is_vision() => 0,
            _ => all,
        }
    }

    /// Parameters that one text token is computed with.
    pub fn active(&self) -> usize {
        Part::all().map(|part| self.active_part(part)).sum()
    }

    /// The same without embedding and head, as models' names count them.
    pub fn active_in_layers(&self) -> usize {
        Part::all()
            .filter(|part| ![Part::Embedding, Part::LmHead].contains(part))
            .map(|part| self.active_part(part))
            .sum()
    }

    /// Elements of one weight.
    pub fn elements(&self, weight: Weight) -> usize {
        self.count(|other| other == weight)
    }

    /// Elements of a weight of a layer.
    pub fn in_layer(&self, layer: usize, is_chosen: impl Fn(LayerWeight) -> bool) -> usize {
        self.count(|weight| matches!(weight, Weight::Layer(l, weight) if l == layer && is_chosen(weight)))
    }

    /// Parameters of one routed expert: 3·H·I.
    pub fn expert(&self, layer: usize) -> usize {
        self.in_layer(layer, |weight| matches!(weight, LayerWeight::Expert(0, _)))
    }

    /// Parameters of the four projections of a layer's attention: `H·(2·n_q + 2·n_kv)·d`.
    pub fn projections(&self, layer: usize) -> usize {
        self.in_layer(layer, is_projection)
    }
}

/// Whether it is one of the four projections of attention.
pub fn is_projection(weight: LayerWeight) -> bool {
    matches!(weight, LayerWeight::QProj | LayerWeight::KProj | LayerWeight::VProj | LayerWeight::OProj)
}
