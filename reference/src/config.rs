//! The configuration of a model, from the hub's `config.json`.

mod architecture;
pub mod families;
pub mod m2;
pub mod m3;
mod mtp;
mod quantization;
mod reader;
mod sizes;
mod vision;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::Semantics;
use crate::grid::AXES;
use crate::semantics::{AxialAxes, Module, MsaSelect, NormWeight, QkNorm};
pub use architecture::Architecture;
pub use quantization::Quantization;
pub use reader::ConfigError;
pub use vision::{Patch, Vision};

/// MiniMax-M2, M2.1, M2.5, M2.7, or the text model of MiniMax-M3.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How its tensors are named.
    pub architecture: Architecture,
    /// V.
    pub vocab_size: usize,
    /// H.
    pub hidden_size: usize,
    /// I, of one expert.
    pub intermediate_size: usize,
    /// L.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    pub num_key_value_heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Channels of a head that rotate.
    pub rotary_dim: usize,
    /// θ.
    pub rope_theta: f64,
    /// ε.
    pub rms_norm_eps: f64,
    /// E.
    pub num_local_experts: usize,
    /// k.
    pub num_experts_per_tok: usize,
    /// Positions go below this.
    pub max_position_embeddings: usize,
    /// Whether the head is the embedding.
    pub tie_word_embeddings: bool,
    /// Tokens that end a text.
    pub eos_token_id: Vec<u32>,
    /// What norms multiply by.
    pub norm_weight: NormWeight,
    /// Over what queries and keys are normed.
    pub qk_norm: QkNorm,
    /// SwiGLU-OAI's coefficients; without them the activation is `SwiGLU`.
    pub swiglu_oai: Option<Coefficients>,
    /// What each layer is made of; a layer beyond the list is as M2's are.
    pub layers: Vec<Layer>,
    /// I of a dense layer; 0 where there is none.
    pub dense_intermediate_size: usize,
    /// I of the expert that all tokens share; 0 where there is none.
    pub shared_intermediate_size: usize,
    /// By what the routed experts' sum is multiplied, where there is a shared expert.
    pub routed_scaling_factor: f64,
    /// The index branch of block-sparse layers.
    pub index: Option<Index>,
    /// The vision tower of a model that sees.
    pub vision: Option<Vision>,
    /// Modules of multi-token prediction that are announced; no released checkpoint has any.
    pub num_mtp_modules: usize,
    /// The module of multi-token prediction that it is of, if it is of one.
    pub module: Option<Module>,
    /// How weights are quantized, if they are.
    pub quantization: Option<Quantization>,
    /// Layers in which as many are not chosen as in others.
    pub choosing: BTreeMap<usize, Choosing>,
}

/// What a layer chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choosing {
    /// k.
    pub experts: usize,
    /// Blocks of keys.
    pub index: Option<Index>,
}

/// What a layer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Layer {
    /// What a token attends to.
    pub attention: Attention,
    /// What follows attention.
    pub feed_forward: FeedForward,
}

/// What a token attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Attention {
    /// All tokens before it.
    #[default]
    Full,
    /// The blocks that an index branch chooses for it.
    BlockSparse,
}

/// What follows attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FeedForward {
    /// Experts, of which each token is sent to a few.
    #[default]
    Experts,
    /// One network for all tokens.
    Dense,
}

/// The branch that chooses blocks of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// Heads; one for each key head.
    pub heads: usize,
    /// Channels of a head.
    pub head_dim: usize,
    /// Choices of a token: one for each key head, unless a reading has one for all.
    pub choices: usize,
    /// How blocks are chosen.
    pub blocks: Blocks,
}

/// How blocks are scored and chosen: what a config says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// b: keys of a block.
    pub size: usize,
    /// K.
    pub top_k: usize,
    /// L: blocks that are forced, the token's own among them.
    pub local: usize,
    /// D23: blocks from the first on that are forced.
    pub init: usize,
}

/// Coefficients of SwiGLU-OAI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coefficients {
    /// α.
    pub alpha: f64,
    /// ℓ.
    pub limit: f64,
    /// β.
    pub beta: f64,
}

impl Config {
    /// `self` with what a reading of the documents overrides.
    #[must_use]
    pub fn under(&self, semantics: &Semantics) -> Self {
        let index = self.index.map(|index| Index {
            choices: match semantics.msa_select {
                MsaSelect::PerGroup => index.choices,
                MsaSelect::HeadMax => 1,
            },
            blocks: Blocks {
                size: semantics.msa_block.unwrap_or(index.blocks.size),
                local: semantics.msa_local_block.unwrap_or(index.blocks.local),
                top_k: semantics.msa_top_k.unwrap_or(index.blocks.top_k),
                init: semantics.msa_init_block.unwrap_or(index.blocks.init),
            },
            ..index
        });
        let axes = if semantics.axial_axes == AxialAxes::HeightWidth { AXES - 1 } else { AXES };
        Config {
            vision: self.vision.clone().map(|vision| Vision { axes, ..vision }),
            rotary_dim: semantics.rotary_dim.unwrap_or(self.rotary_dim),
            rope_theta: semantics.rope_theta.unwrap_or(self.rope_theta),
            rms_norm_eps: semantics.norm_eps.unwrap_or(self.rms_norm_eps),
            num_experts_per_tok: semantics.top_k.unwrap_or(self.num_experts_per_tok),
            index,
            ..self.clone()
        }
    }

    /// `self` as a layer has it.
    pub fn of_layer(&self, layer: usize) -> Cow<'_, Self> {
        match self.choosing.get(&layer) {
            None => Cow::Borrowed(self),
            Some(Choosing { experts, index }) => {
                Cow::Owned(Config { num_experts_per_tok: *experts, index: *index, ..self.clone() })
            }
        }
    }

    /// Width of all query heads.
    pub fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Width of all key heads, and of all value heads.
    pub fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// What a layer is made of.
    pub fn layer(&self, layer: usize) -> Layer {
        self.layers.get(layer).copied().unwrap_or_default()
    }

    /// The index branch of a layer, if it has one.
    pub fn index_of(&self, layer: usize) -> Option<Index> {
        self.index.filter(|_| self.layer(layer).attention == Attention::BlockSparse)
    }

    /// Whether a layer has an expert that all tokens share.
    pub fn is_shared(&self, layer: usize) -> bool {
        self.shared_intermediate_size > 0 && self.layer(layer).feed_forward == FeedForward::Experts
    }

    /// Widths of the query norm's and the key norm's weights.
    pub fn qk_norm_widths(&self) -> [usize; 2] {
        match self.qk_norm {
            QkNorm::PerHead => [self.head_dim; 2],
            QkNorm::FullProjection | QkNorm::None => [self.query_width(), self.key_width()],
        }
    }
}
