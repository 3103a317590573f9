//! Weights of one decoder layer.

use std::fmt;

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

impl LayerWeight {
    /// Whether it is that of an RMSNorm.
    pub fn is_norm(self) -> bool {
        use LayerWeight::{IndexKNorm, IndexQNorm, InputNorm, KNorm, PostAttentionNorm, QNorm};
        matches!(self, InputNorm | QNorm | KNorm | IndexQNorm | IndexKNorm | PostAttentionNorm)
    }
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

/// The name in the hub's files, below the layer's.
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
