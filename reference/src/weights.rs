//! The model's weights, by typed name, wherever they are kept.

mod layer;
mod mtp;
mod vision;

use std::fmt;

use crate::config::{Config, FeedForward};
use crate::error::WeightError;
use crate::matrix::Matrix;
use crate::semantics::{Module, MtpTopology};

pub use layer::{LayerWeight, Projection};
pub use mtp::MtpWeight;
pub use vision::{Part, Stage, VisionLayerWeight, VisionWeight};

/// A weight of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Weight {
    /// Token embedding \[vocabulary, hidden\].
    Embedding,
    /// Norm after the last layer \[hidden\].
    FinalNorm,
    /// Head \[vocabulary, hidden\].
    LmHead,
    /// A weight of one layer.
    Layer(usize, LayerWeight),
    /// A weight of the vision tower or the projector.
    Vision(VisionWeight),
    /// A weight of a module of multi-token prediction.
    Mtp(usize, MtpWeight),
}

impl Weight {
    /// Whether it is that of an RMSNorm.
    pub fn is_norm(self) -> bool {
        match self {
            Weight::FinalNorm => true,
            Weight::Layer(_, weight) => weight.is_norm(),
            Weight::Mtp(_, weight) => weight.is_norm(),
            Weight::Embedding | Weight::LmHead | Weight::Vision(_) => false,
        }
    }

    /// What it is of a layer, if it is of one: of the model's, or of a module's of multi-token prediction.
    pub fn in_layer(self) -> Option<LayerWeight> {
        match self {
            Weight::Layer(_, inner) | Weight::Mtp(_, MtpWeight::Layer(inner)) => Some(inner),
            _ => None,
        }
    }

    /// What is added to the product with it, if anything is.
    pub fn bias(self) -> Option<Weight> {
        match self {
            Weight::Vision(weight) => weight.bias().map(Weight::Vision),
            _ => None,
        }
    }

    /// Whether it is added to a product.
    pub fn is_bias(self) -> bool {
        matches!(self, Weight::Vision(weight) if weight.is_bias())
    }
}

/// Where weights are kept: a checkpoint on disk, or memory.
pub trait Weights: Sync {
    /// The weight; a vector is a matrix of one row.
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError>;
}

/// Every weight of a model but those of [`mtp_inventory`], with its shape (a vector has one row).
pub fn inventory(config: &Config) -> Vec<(Weight, (usize, usize))> {
    let (h, v) = (config.hidden_size, config.vocab_size);
    let (q, k) = (config.query_width(), config.key_width());
    let mut all = vec![(Weight::Embedding, (v, h)), (Weight::FinalNorm, (1, h)), (Weight::LmHead, (v, h))];
    for layer in 0..config.num_hidden_layers {
        let mut push = |weight, dim| all.push((Weight::Layer(layer, weight), dim));
        push(LayerWeight::InputNorm, (1, h));
        push(LayerWeight::QProj, (q, h));
        push(LayerWeight::KProj, (k, h));
        push(LayerWeight::VProj, (k, h));
        let [q_norm, k_norm] = config.qk_norm_widths();
        push(LayerWeight::QNorm, (1, q_norm));
        push(LayerWeight::KNorm, (1, k_norm));
        push(LayerWeight::OProj, (h, q));
        if let Some(index) = config.index_of(layer) {
            push(LayerWeight::IndexQProj, (index.heads * index.head_dim, h));
            push(LayerWeight::IndexKProj, (index.head_dim, h));
            push(LayerWeight::IndexQNorm, (1, index.head_dim));
            push(LayerWeight::IndexKNorm, (1, index.head_dim));
        }
        push(LayerWeight::PostAttentionNorm, (1, h));
        if config.layer(layer).feed_forward == FeedForward::Experts {
            push(LayerWeight::Gate, (config.num_local_experts, h));
            push(LayerWeight::CorrectionBias, (1, config.num_local_experts));
        }
        let mut network = |of: &dyn Fn(Projection) -> LayerWeight, width: usize| {
            push(of(Projection::Gate), (width, h));
            push(of(Projection::Up), (width, h));
            push(of(Projection::Down), (h, width));
        };
        if config.layer(layer).feed_forward == FeedForward::Dense {
            network(&LayerWeight::Dense, config.dense_intermediate_size);
            continue;
        }
        if config.is_shared(layer) {
            network(&LayerWeight::Shared, config.shared_intermediate_size);
        }
        for expert in 0..config.num_local_experts {
            network(&|projection| LayerWeight::Expert(expert, projection), config.intermediate_size);
        }
    }
    all.extend(vision::inventory(config).into_iter().map(|(weight, dim)| (Weight::Vision(weight), dim)));
    all
}

/// Every weight of so many modules of multi-token prediction, with its shape (a vector has one row).
pub fn mtp_inventory(config: &Config, topology: MtpTopology, modules: usize) -> Vec<(Weight, (usize, usize))> {
    let layer =
        inventory(&config.mtp_module(Module { topology, number: 0 })).into_iter().filter_map(|(weight, dim)| {
            match weight {
                Weight::Layer(_, inner) => Some((MtpWeight::Layer(inner), dim)),
                _ => None,
            }
        });
    let all: Vec<(MtpWeight, (usize, usize))> = mtp::around_layer(config, topology).into_iter().chain(layer).collect();
    let of_module = |module| all.iter().map(move |(weight, dim)| (Weight::Mtp(module, *weight), *dim));
    (0..modules).flat_map(of_module).collect()
}

/// The name in the hub's files, below what a text model is a part of.
impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Embedding => f.write_str("model.embed_tokens.weight"),
            Weight::FinalNorm => f.write_str("model.norm.weight"),
            Weight::LmHead => f.write_str("lm_head.weight"),
            Weight::Layer(layer, weight) => write!(f, "model.layers.{layer}.{weight}"),
            Weight::Vision(weight) => weight.fmt(f),
            Weight::Mtp(module, weight) => write!(f, "model.mtp.layers.{module}.{weight}"),
        }
    }
}
