//! What weights are held in, or cast to as they are used.

use super::choices::{Autocast, GateRound, Inputs, WeightCast};
use crate::Storage;

/// What an implementation holds weights in; [`Storage::Real`] stands for the type that they are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Norms.
    pub vectors: Storage,
    /// Biases of products.
    pub biases: Storage,
    /// The token embedding.
    pub embedding: Storage,
    /// The router's weight.
    pub router: Storage,
    /// The router's correction bias.
    pub bias: Storage,
    /// Quantized matrices.
    pub quantized: Storage,
    /// Matrices of routed experts.
    pub experts: Storage,
    /// The patch embedding's, a convolution's.
    pub patches: Storage,
    /// All others.
    pub others: Storage,
}

impl Held {
    /// Under these points of a contract.
    pub(super) fn of(
        activations: Storage,
        (weights, gate): (WeightCast, GateRound),
        inputs: Inputs,
        (autocast, convolved): (Autocast, Storage),
    ) -> Self {
        let cast = |casts: bool| if casts { activations } else { Storage::Real };
        let vectors = cast(weights == WeightCast::Activations);
        let matrices = if weights == WeightCast::MatricesF16 { Storage::F16 } else { vectors };
        let bias = cast(!matches!(gate, GateRound::Stored | GateRound::Product));
        let router = cast(!matches!(gate, GateRound::Stored | GateRound::Bias));
        let dequantized = if weights == WeightCast::DequantizedBf16 { Storage::Bf16 } else { Storage::Real };
        let (of_products, of_experts) = (autocast.storage(), autocast.of_experts());
        let others = coarser(matrices, of_products);
        Held {
            vectors,
            biases: coarser(vectors, autocast.results()),
            embedding: matrices,
            router: coarser(router, of_products),
            bias,
            quantized: if inputs == Inputs::Stored { coarser(others, dequantized) } else { Storage::Real },
            experts: coarser(matrices, of_experts),
            patches: coarser(others, convolved),
            others,
        }
    }
}

/// What is rounded to one type and to another in the end: the coarser, of which the other's values are but for their range.
pub(super) fn coarser(one: Storage, other: Storage) -> Storage {
    if other.unit_roundoff() > one.unit_roundoff() { other } else { one }
}
