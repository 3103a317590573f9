//! The places in a decoder layer, a row each.

use super::axis::Axis::{
    self, Blocks, Channels, Choosers, ChosenBlocks, ChosenExperts, Experts, IndexHeads, Positions, QueryHeads, Slots,
    Tokens,
};
use super::axis::Width;
use super::row::{Exists, Kept, Mark, Row};
use crate::config::Config;

/// A place in a decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerSite {
    /// Output of the norm before attention \[T, H\].
    InputNorm,
    /// Query projection \[T, heads·D\].
    QProj,
    /// Key projection \[T, heads·D\].
    KProj,
    /// Value projection \[T, heads·D\].
    VProj,
    /// Normalised queries \[T, heads·D\].
    QNorm,
    /// Normalised keys \[T, heads·D\].
    KNorm,
    /// Rotated queries \[T, heads·D\].
    QRope,
    /// Rotated keys \[T, heads·D\].
    KRope,
    /// Query projection of the index branch \[T, index heads·D\].
    IndexQProj,
    /// Its key projection \[T, D\].
    IndexKProj,
    /// Its normalised queries \[T, index heads·D\].
    IndexQNorm,
    /// Its normalised keys \[T, D\].
    IndexKNorm,
    /// Its rotated queries \[T, index heads·D\].
    IndexQRope,
    /// Its rotated keys \[T, D\].
    IndexKRope,
    /// Its scores of tokens, −∞ where masked \[index heads, T, S\].
    TokenScores,
    /// The largest score of each block of keys, −∞ where none is visible \[choices, T, blocks\].
    BlockMax,
    /// The same with what is forced at ∞, by which blocks are chosen \[choices, T, blocks\].
    BlockScore,
    /// Chosen blocks \[choices, T, k\], in the order of choice; none after the last.
    Blocks,
    /// Scaled scores before the softmax, −∞ where masked \[heads, T, S\].
    Scores,
    /// Attention probabilities \[heads, T, S\].
    Probabilities,
    /// Weighted values, before the output projection \[T, heads·D\].
    Context,
    /// Output projection \[T, H\].
    OProj,
    /// Output of attention \[T, H\]; the projection's again.
    Attention,
    /// The residual stream after attention \[T, H\].
    Residual,
    /// Output of the norm before the feed-forward network \[T, H\].
    PostAttentionNorm,
    /// Gate and up projection of a dense layer, side by side \[T, 2·I\].
    DenseGateUp,
    /// Output projection of a dense layer \[T, H\].
    DenseDown,
    /// Gate and up projection of the shared expert, side by side \[T, 2·I\].
    SharedGateUp,
    /// Output projection of the shared expert \[T, H\].
    SharedDown,
    /// Output of the shared expert \[T, H\]; the projection's again.
    Shared,
    /// Router logits \[T, E\].
    GateLogits,
    /// Router scores \[T, E\].
    GateScores,
    /// Scores plus correction bias, by which experts are chosen \[T, E\].
    GateChoice,
    /// Chosen experts \[T, k\], in the order of choice.
    GateExperts,
    /// Routing weights \[T, k\], in the order of the chosen experts.
    GateWeights,
    /// Activation inside the chosen experts \[T, k, I\].
    ExpertHidden,
    /// Output of the chosen experts, before the routing weights \[T, k, H\].
    ExpertOutput,
    /// What one expert adds to each token, 0 where it is not chosen \[T, H\].
    Expert(usize),
    /// Weighted sum of the experts \[T, H\].
    Experts,
    /// Output of the feed-forward block \[T, H\].
    Mlp,
    /// Output of the layer: the residual stream \[T, H\].
    Output,
}

/// A vector as wide as the residual stream for each token.
const STREAM: &[Axis] = &[Tokens, Channels(Width::Hidden)];

/// Every site of a layer but [`LayerSite::Expert`], in the order in which a token meets them.
const ROWS: [(LayerSite, Row); 40] = [
    (LayerSite::InputNorm, Row::new(".input_layernorm", STREAM)),
    (LayerSite::QProj, Row::new(".self_attn.q_proj", &[Tokens, Channels(Width::Query)]).product()),
    (LayerSite::KProj, Row::new(".self_attn.k_proj", &[Tokens, Channels(Width::Key)]).product()),
    (LayerSite::VProj, Row::new(".self_attn.v_proj", &[Tokens, Channels(Width::Key)]).product()),
    (LayerSite::QNorm, Row::new(".self_attn.q_norm", &[Tokens, Channels(Width::Query)]).kept(Kept::BeforeRotation)),
    (LayerSite::KNorm, Row::new(".self_attn.k_norm", &[Tokens, Channels(Width::Key)]).kept(Kept::BeforeRotation)),
    (LayerSite::QRope, Row::new(".self_attn.q_rope", &[Tokens, Channels(Width::Query)])),
    (LayerSite::KRope, Row::new(".self_attn.k_rope", &[Tokens, Channels(Width::Key)])),
    (
        LayerSite::IndexQProj,
        Row::new(".self_attn.indexer.q_proj", &[Tokens, Channels(Width::IndexQuery)]).of(Exists::BlockSparse).product(),
    ),
    (
        LayerSite::IndexKProj,
        Row::new(".self_attn.indexer.k_proj", &[Tokens, Channels(Width::IndexKey)]).of(Exists::BlockSparse).product(),
    ),
    (
        LayerSite::IndexQNorm,
        Row::new(".self_attn.indexer.q_norm", &[Tokens, Channels(Width::IndexQuery)])
            .of(Exists::BlockSparse)
            .kept(Kept::BeforeRotation),
    ),
    (
        LayerSite::IndexKNorm,
        Row::new(".self_attn.indexer.k_norm", &[Tokens, Channels(Width::IndexKey)])
            .of(Exists::BlockSparse)
            .kept(Kept::BeforeRotation),
    ),
    (
        LayerSite::IndexQRope,
        Row::new(".self_attn.indexer.q_rope", &[Tokens, Channels(Width::IndexQuery)]).of(Exists::BlockSparse),
    ),
    (
        LayerSite::IndexKRope,
        Row::new(".self_attn.indexer.k_rope", &[Tokens, Channels(Width::IndexKey)]).of(Exists::BlockSparse),
    ),
    (
        LayerSite::TokenScores,
        Row::new(".self_attn.indexer.scores", &[IndexHeads, Tokens, Positions])
            .of(Exists::BlockSparse)
            .kept(Kept::Wide)
            .marked(&[Mark::OnRequest, Mark::Masked])
            .product(),
    ),
    (
        LayerSite::BlockMax,
        Row::new(".self_attn.indexer.block_max", &[Choosers, Tokens, Blocks])
            .of(Exists::BlockSparse)
            .kept(Kept::Wide)
            .marked(&[Mark::SizedByReading, Mark::Masked])
            .product(),
    ),
    (
        LayerSite::BlockScore,
        Row::new(".self_attn.indexer.block_score", &[Choosers, Tokens, Blocks])
            .of(Exists::BlockSparse)
            .kept(Kept::Wide)
            .marked(&[Mark::SizedByReading, Mark::Masked])
            .product(),
    ),
    (
        LayerSite::Blocks,
        Row::new(".self_attn.indexer", &[Choosers, Tokens, ChosenBlocks])
            .of(Exists::BlockSparse)
            .kept(Kept::Choices)
            .marked(&[Mark::SizedByReading]),
    ),
    (
        LayerSite::Scores,
        Row::new(".self_attn.scores", &[QueryHeads, Tokens, Positions])
            .of(Exists::FullAttention)
            .marked(&[Mark::OnRequest, Mark::Masked])
            .product(),
    ),
    (LayerSite::Probabilities, Row::new(".self_attn.1", &[QueryHeads, Tokens, Positions]).marked(&[Mark::OnRequest])),
    (LayerSite::Context, Row::new(".self_attn.context", &[Tokens, Channels(Width::Query)]).product()),
    (LayerSite::OProj, Row::new(".self_attn.o_proj", STREAM).product()),
    (LayerSite::Attention, Row::new(".self_attn", STREAM).product()),
    (LayerSite::Residual, Row::new(".self_attn.residual", STREAM)),
    (LayerSite::PostAttentionNorm, Row::new(".post_attention_layernorm", STREAM)),
    (
        LayerSite::DenseGateUp,
        Row::new(".mlp.gate_up_proj", &[Tokens, Channels(Width::DenseGateUp)]).of(Exists::Dense).product(),
    ),
    (LayerSite::DenseDown, Row::new(".mlp.down_proj", STREAM).of(Exists::Dense).product()),
    (
        LayerSite::SharedGateUp,
        Row::new(".mlp.shared_experts.gate_up_proj", &[Tokens, Channels(Width::SharedGateUp)])
            .of(Exists::Shared)
            .product(),
    ),
    (LayerSite::SharedDown, Row::new(".mlp.shared_experts.down_proj", STREAM).of(Exists::Shared).product()),
    (LayerSite::Shared, Row::new(".mlp.shared_experts", STREAM).of(Exists::Shared).product()),
    (LayerSite::GateLogits, Row::new(".mlp.gate", &[Tokens, Experts]).of(Exists::Experts).kept(Kept::Wide).product()),
    (LayerSite::GateScores, Row::new(".mlp.gate.scores", &[Tokens, Experts]).of(Exists::Experts).kept(Kept::Wide)),
    (LayerSite::GateChoice, Row::new(".mlp.gate.choice", &[Tokens, Experts]).of(Exists::Experts).kept(Kept::Wide)),
    (
        LayerSite::GateExperts,
        Row::new(".mlp.gate.2", &[Tokens, ChosenExperts])
            .of(Exists::Experts)
            .kept(Kept::Choices)
            .marked(&[Mark::SizedByReading]),
    ),
    (
        LayerSite::GateWeights,
        Row::new(".mlp.gate.1", &[Tokens, Slots]).of(Exists::Experts).kept(Kept::Wide).marked(&[Mark::SizedByReading]),
    ),
    (
        LayerSite::ExpertHidden,
        Row::new(".mlp.experts.hidden", &[Tokens, Slots, Channels(Width::Expert)])
            .of(Exists::Experts)
            .marked(&[Mark::SizedByReading])
            .product(),
    ),
    (
        LayerSite::ExpertOutput,
        Row::new(".mlp.experts.output", &[Tokens, Slots, Channels(Width::Hidden)])
            .of(Exists::Experts)
            .marked(&[Mark::SizedByReading])
            .product(),
    ),
    (LayerSite::Experts, Row::new(".mlp.experts", STREAM).of(Exists::Experts)),
    (LayerSite::Mlp, Row::new(".mlp", STREAM)),
    (LayerSite::Output, Row::new("", STREAM).marked(&[Mark::Stream])),
];

/// [`LayerSite::Expert`]'s; the number follows the path.
const EXPERT: Row = Row::new(".mlp.experts", STREAM).of(Exists::Experts).marked(&[Mark::OnRequest]);

impl LayerSite {
    /// Every site of a layer but [`LayerSite::Expert`], in the order in which a token meets them.
    pub const ALL: [LayerSite; ROWS.len()] = {
        let mut all = [LayerSite::Output; ROWS.len()];
        let mut i = 0;
        while i < ROWS.len() {
            all[i] = ROWS[i].0;
            i += 1;
        }
        all
    };

    /// What is known of it.
    pub(super) fn row(self) -> &'static Row {
        let row = ROWS.iter().find(|(site, _)| *site == self);
        row.map_or(&EXPERT, |(_, row)| row)
    }

    /// Whether a layer of a model has it.
    pub(super) fn exists(self, config: &Config, layer: usize) -> bool {
        let is_expert = match self {
            LayerSite::Expert(expert) => expert < config.num_local_experts,
            _ => true,
        };
        is_expert && layer < config.num_hidden_layers && self.row().exists.holds(config, layer)
    }
}
