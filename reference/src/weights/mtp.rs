//! Weights of the modules of multi-token prediction (SPEC C3).

use std::fmt;

use super::layer::LayerWeight;
use crate::config::Config;
use crate::semantics::MtpTopology;

/// A weight of one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MtpWeight {
    /// Norm of the token's embedding \[hidden\].
    EmbeddingNorm,
    /// Norm of the hidden state \[hidden\].
    HiddenNorm,
    /// Projection of both side by side \[hidden, 2 · hidden\].
    BothProj,
    /// Projection of the hidden state alone \[hidden, hidden\], in document 000's modules.
    HiddenProj,
    /// A weight of the decoder layer.
    Layer(LayerWeight),
    /// Norm behind the layer \[hidden\].
    FinalNorm,
    /// A head of the module's own \[vocabulary, hidden\], in document 000's modules.
    Head,
}

impl MtpWeight {
    /// Whether it is that of an RMSNorm.
    pub fn is_norm(self) -> bool {
        match self {
            MtpWeight::EmbeddingNorm | MtpWeight::HiddenNorm | MtpWeight::FinalNorm => true,
            MtpWeight::Layer(weight) => weight.is_norm(),
            MtpWeight::BothProj | MtpWeight::HiddenProj | MtpWeight::Head => false,
        }
    }
}

/// What a module has beside its layer, each with its shape.
pub(super) fn around_layer(config: &Config, topology: MtpTopology) -> Vec<(MtpWeight, (usize, usize))> {
    let h = config.hidden_size;
    if topology.is_concatenated() {
        return vec![
            (MtpWeight::EmbeddingNorm, (1, h)),
            (MtpWeight::HiddenNorm, (1, h)),
            (MtpWeight::BothProj, (h, 2 * h)),
            (MtpWeight::FinalNorm, (1, h)),
        ];
    }
    let head = (MtpWeight::Head, (config.vocab_size, h));
    vec![(MtpWeight::HiddenProj, (h, h)), (MtpWeight::FinalNorm, (1, h)), head]
}

/// The name in the hub's files, below the module's. Document 000's projection and head, of which no file is known, are called
/// as it calls them.
impl fmt::Display for MtpWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MtpWeight::EmbeddingNorm => f.write_str("enorm.weight"),
            MtpWeight::HiddenNorm => f.write_str("hnorm.weight"),
            MtpWeight::BothProj => f.write_str("eh_proj.weight"),
            MtpWeight::HiddenProj => f.write_str("mtp_proj.weight"),
            MtpWeight::Layer(weight) => write!(f, "transformer_layer.{weight}"),
            MtpWeight::FinalNorm => f.write_str("final_layernorm.weight"),
            MtpWeight::Head => f.write_str("mtp_head.weight"),
        }
    }
}
