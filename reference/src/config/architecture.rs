//! What a family of decoders has of its own beside its sizes: names, and how it predicts several tokens.

use crate::semantics::MtpTopology;

/// A family of decoders. Which operators a layer has is the configuration's to say ([`Layer`](super::Layer)); this is how the
/// family's tensors are named, and what there is to say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Architecture {
    /// `model_type` of its `config.json`.
    pub model_type: &'static str,
    /// What stands before the text model's tensors on the hub.
    pub hub_prefix: &'static str,
    /// What transformers has in place of the hub's `model.`.
    pub module_prefix: &'static str,
    /// The module in which transformers has the router's correction bias, in place of the hub's `block_sparse_moe.`.
    pub bias_module: &'static str,
    /// Why a checkpoint of it without a vision tower takes no images.
    pub blind: &'static str,
    /// How its modules of multi-token prediction are put together (D17).
    pub mtp: MtpTopology,
    /// As many of them as the documents state (D16).
    pub mtp_modules: usize,
}
