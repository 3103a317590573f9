//! The configuration of a module of multi-token prediction.

use serde_json::Value;

use super::reader::Reader;
use super::sizes::MOST_LAYERS;
use super::{Architecture, Attention, Config, FeedForward, Layer};
use crate::Semantics;
use crate::semantics::{Module, MtpHidden, MtpTopology};

impl Reader<'_> {
    /// Modules that are announced: none where `use_mtp` is false; the documents' number where no field says.
    pub(super) fn mtp_modules(&mut self, architecture: &Architecture) -> usize {
        if self.value("use_mtp") == Some(&Value::Bool(false)) {
            return 0;
        }
        if self.value("num_mtp_modules").is_none() {
            return architecture.mtp_modules;
        }
        let n = self.count("num_mtp_modules");
        self.require(n <= MOST_LAYERS, || format!("num_mtp_modules = {n}, expected at most {MOST_LAYERS}"));
        n.min(MOST_LAYERS)
    }
}

impl Config {
    /// By how much the position of row 0 is ahead of 0: in modules of multi-token prediction.
    pub fn ahead(&self) -> usize {
        self.module.map_or(0, Module::ahead)
    }

    /// How the model's modules are put together under a reading.
    pub fn mtp_topology(&self, semantics: &Semantics) -> MtpTopology {
        semantics.mtp_topology.unwrap_or(self.architecture.mtp)
    }

    /// The model's hidden state that its first module reads under a reading.
    pub fn mtp_hidden(&self, semantics: &Semantics) -> MtpHidden {
        semantics.mtp_hidden.unwrap_or(self.mtp_topology(semantics).hidden())
    }

    /// Of the model that a module is for itself: one layer with experts, block-sparse where the model has an index branch.
    /// transformers' has full attention: with the other its index branch would count positions of queries from further on than
    /// those of keys.
    #[must_use]
    pub fn mtp_module(&self, module: Module) -> Config {
        let topology = module.topology;
        let is_sparse = self.index.is_some() && topology != MtpTopology::HfGeneric;
        let attention = if is_sparse { Attention::BlockSparse } else { Attention::Full };
        Config {
            num_hidden_layers: 1,
            layers: vec![Layer { attention, feed_forward: FeedForward::Experts }],
            tie_word_embeddings: self.tie_word_embeddings && topology.is_concatenated(),
            vision: None,
            module: Some(module),
            ..self.clone()
        }
    }
}
