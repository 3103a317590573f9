//! All operators.

use super::operator::Operator;
use super::{activations, attention, blocks, norms, products, routing, training, vision};
use crate::failure::Failure;

/// Every operator of `reference/src/ops`, as a pass comes to them; what training adds is last.
pub const OPERATORS: [Operator; 37] = [
    products::EMBEDDING,
    norms::RMS_NORM,
    norms::ADD_RMS_NORM,
    norms::QK_NORM,
    norms::SHARDED_NORM,
    products::LINEAR,
    products::LINEAR_BIAS,
    attention::ROPE,
    attention::QK_NORM_ROPE,
    attention::KV_CACHE,
    attention::ATTENTION,
    blocks::INDEXER,
    blocks::BLOCK_SPARSE_ATTENTION,
    attention::HYBRID_ATTENTION,
    attention::LIGHTNING_ATTENTION,
    attention::GATED_LIGHTNING,
    activations::RESIDUAL,
    activations::ALL_REDUCE,
    routing::ROUTER,
    activations::SWIGLU,
    activations::SWIGLU_OAI,
    products::DENSE_FFN,
    routing::MOE,
    vision::MTP,
    routing::SAMPLING,
    vision::PATCH_EMBEDDING,
    norms::LAYER_NORM,
    vision::AXIAL_ROPE,
    vision::VISION_ATTENTION,
    activations::GELU,
    vision::PATCH_MERGE,
    vision::MASKED_SCATTER,
    training::ROUTER_JITTER,
    training::LOAD_BALANCING,
    training::UPDATED_BIAS,
    training::POLICY_GRADIENT,
    training::ADVANTAGES,
];

/// The one of this name.
pub fn named(name: &str) -> Result<&'static Operator, Failure> {
    OPERATORS.iter().find(|operator| operator.signature.name == name).ok_or_else(|| {
        let names: Vec<&str> = OPERATORS.iter().map(|operator| operator.signature.name).collect();
        Failure::new(format!("{name:?} is no operator, expected one of {}", names.join(", ")))
            .help("`parity op` lists them with their inputs and outputs")
    })
}
