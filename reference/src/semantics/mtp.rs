//! How modules of multi-token prediction are put together.

use strum::{Display, EnumString, VariantNames};

/// Which of the three descriptions of a module (SPEC A18, A19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MtpTopology {
    /// Document 000, of M2.7: each module adds the token's embedding to a projection of the model's last hidden state, and has a
    /// head of its own.
    Doc000,
    /// vLLM, of M3: embedding and hidden state are normed, put side by side and projected; the first module makes every draft,
    /// each from its own output before.
    VllmM3,
    /// transformers' `MtpModel`: the same input, a module for each draft, each from the normed output of the one before.
    HfGeneric,
}

/// What stands first in the row that a module projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MtpConcat {
    /// The token's embedding.
    EmbeddingFirst,
    /// The hidden state.
    HiddenFirst,
}

/// What becomes of the embedding in the row of position 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MtpFirstEmbedding {
    /// It is replaced by zeros.
    Zeroed,
    /// It is as others are.
    Kept,
}

/// Which of the model's hidden states the first module reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MtpHidden {
    /// The last layer's output behind the final norm.
    Normed,
    /// The last layer's output.
    Stream,
}

/// One of a model's modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// How the model's modules are put together.
    pub topology: MtpTopology,
    /// Its number, from 0.
    pub number: usize,
}

impl Module {
    /// By how much the position of its row 0 is ahead of that of the hidden state there.
    pub fn ahead(self) -> usize {
        if self.topology.has_a_module_each() { self.number + 1 } else { 0 }
    }
}

impl MtpTopology {
    /// Whether a module projects embedding and hidden state side by side, and shares the model's head.
    pub fn is_concatenated(self) -> bool {
        self != MtpTopology::Doc000
    }

    /// Whether each draft has a module of its own.
    pub fn has_a_module_each(self) -> bool {
        self != MtpTopology::VllmM3
    }

    /// What it makes of the embedding at position 0.
    pub fn first_embedding(self) -> MtpFirstEmbedding {
        match self {
            MtpTopology::VllmM3 => MtpFirstEmbedding::Zeroed,
            MtpTopology::Doc000 | MtpTopology::HfGeneric => MtpFirstEmbedding::Kept,
        }
    }

    /// The hidden state that its first module reads. Document 000 names the last layer's output, and no norm.
    pub fn hidden(self) -> MtpHidden {
        match self {
            MtpTopology::Doc000 => MtpHidden::Stream,
            MtpTopology::VllmM3 | MtpTopology::HfGeneric => MtpHidden::Normed,
        }
    }

    /// The hidden state of a module that the next one reads, or itself again; none where each reads the model's.
    pub fn passed_on(self) -> Option<MtpHidden> {
        match self {
            MtpTopology::Doc000 => None,
            MtpTopology::VllmM3 => Some(MtpHidden::Stream),
            MtpTopology::HfGeneric => Some(MtpHidden::Normed),
        }
    }
}
