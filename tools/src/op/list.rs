//! All operators.

use super::operator::Operator;
use super::{activations, attention, norms, products, routing};
use crate::failure::Failure;

/// Every operator, in the order of the table in the README.
pub const OPERATORS: [Operator; 13] = [
    norms::RMS_NORM,
    norms::LAYER_NORM,
    products::LINEAR,
    attention::ROPE,
    attention::ATTENTION,
    attention::LIGHTNING_ATTENTION,
    routing::ROUTER,
    routing::LOAD_BALANCING,
    activations::SWIGLU,
    activations::SWIGLU_OAI,
    activations::GELU,
    activations::RESIDUAL,
    routing::POLICY_GRADIENT,
];

/// The one of this name.
pub fn named(name: &str) -> Result<&'static Operator, Failure> {
    OPERATORS.iter().find(|operator| operator.signature.name == name).ok_or_else(|| {
        let names: Vec<&str> = OPERATORS.iter().map(|operator| operator.signature.name).collect();
        Failure::new(format!("{name:?} is no operator, expected one of {}", names.join(", ")))
            .help("`parity op` lists them with their inputs and outputs")
    })
}
