//! The model's weights, by typed name, wherever they are kept.

mod vision;

use std::fmt;

use crate::config::{Config, FeedForward};
use crate::error::WeightError;
use crate::matrix::Matrix;

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
}

impl Weight {
    /// Whether it is that of an RMSNorm.
    pub fn is_norm(self) -> bool {
        use LayerWeight::{IndexKNorm, IndexQNorm, InputNorm, KNorm, PostAttentionNorm, QNorm};
        match self {
            Weight::FinalNorm => true,
            Weight::Layer(_, weight) => {
                matches!(weight, InputNorm | QNorm | KNorm | IndexQNorm | IndexKNorm | PostAttentionNorm)
            }
            Weight::Embedding | Weight::LmHead | Weight::Vision(_) => false,
        }
    }
}

/// A weight of one decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerWeight {
    /// Norm before attention \[hidden\].
    InputNorm,
    /// Query projection \[query heads · head, hidden\].
    QProj,
    /// Key projection \[key heads · head, hidden\].
    KProj,
    /// Value projection \[key heads · head, hidden\].
    VProj,
    /// Query norm \[query heads · head\], or \[head\] where each head is normed.
    QNorm,
    /// Key norm \[key heads · head\], or \[head\].
    KNorm,
    /// Output projection \[hidden, query heads · head\].
    OProj,
    /// Query projection of the index branch \[index heads · index head, hidden\].
    IndexQProj,
    /// Its key projection \[index head, hidden\].
    IndexKProj,
    /// Its query norm \[index head\].
    IndexQNorm,
    /// Its key norm \[index head\].
    IndexKNorm,
    /// Norm before the feed-forward network \[hidden\].
    PostAttentionNorm,
    /// Router \[experts, hidden\].
    Gate,
    /// Router's correction bias \[experts\].
    CorrectionBias,
    /// A projection of one expert.
    Expert(usize, Projection),
    /// A projection of the expert that all tokens share.
    Shared(Projection),
    /// A projection of a dense layer.
    Dense(Projection),
}

/// The three projections of a gated feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Projection {
    /// w1 \[intermediate, hidden\].
    Gate,
    /// w3 \[intermediate, hidden\].
    Up,
    /// w2 \[hidden, intermediate\].
    Down,
}

/// Where weights are kept: a checkpoint on disk, or memory.
pub trait Weights: Sync {
    /// The weight; a vector is a matrix of one row.
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError>;
}

/// Every weight of a model, with its shape (a vector has one row).
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

/// The name in the hub's files, below what a text model is a part of.
impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Embedding => f.write_str("model.embed_tokens.weight"),
            Weight::FinalNorm => f.write_str("model.norm.weight"),
            Weight::LmHead => f.write_str("lm_head.weight"),
            Weight::Layer(layer, weight) => write!(f, "model.layers.{layer}.{weight}"),
            Weight::Vision(weight) => weight.fmt(f),
        }
    }
}

impl fmt::Display for LayerWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayerWeight::InputNorm => "input_layernorm.weight",
            LayerWeight::QProj => "self_attn.q_proj.weight",
            LayerWeight::KProj => "self_attn.k_proj.weight",
            LayerWeight::VProj => "self_attn.v_proj.weight",
            LayerWeight::QNorm => "self_attn.q_norm.weight",
            LayerWeight::KNorm => "self_attn.k_norm.weight",
            LayerWeight::OProj => "self_attn.o_proj.weight",
            LayerWeight::IndexQProj => "self_attn.index_q_proj.weight",
            LayerWeight::IndexKProj => "self_attn.index_k_proj.weight",
            LayerWeight::IndexQNorm => "self_attn.index_q_norm.weight",
            LayerWeight::IndexKNorm => "self_attn.index_k_norm.weight",
            LayerWeight::PostAttentionNorm => "post_attention_layernorm.weight",
            LayerWeight::Gate => "block_sparse_moe.gate.weight",
            LayerWeight::CorrectionBias => "block_sparse_moe.e_score_correction_bias",
            LayerWeight::Expert(expert, projection) => {
                return write!(f, "block_sparse_moe.experts.{expert}.{projection}.weight");
            }
            LayerWeight::Shared(projection) => {
                return write!(f, "block_sparse_moe.shared_experts.{}.weight", projection.module());
            }
            LayerWeight::Dense(projection) => return write!(f, "mlp.{}.weight", projection.module()),
        })
    }
}

impl Projection {
    /// The module of a network that is not one of many experts.
    fn module(self) -> &'static str {
        match self {
            Projection::Gate => "gate_proj",
            Projection::Up => "up_proj",
            Projection::Down => "down_proj",
        }
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Projection::Gate => "w1",
            Projection::Up => "w3",
            Projection::Down => "w2",
        })
    }
}
