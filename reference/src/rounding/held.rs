//! What weights are held in, or cast to as they are used.

use super::{GateRound, Inputs, RoundingContract, WeightCast};
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
    /// All others.
    pub others: Storage,
}

impl RoundingContract {
    /// What the weights are held in, the router's and all others; [`Storage::Real`] where they are held as stored.
    pub fn held(&self) -> Held {
        let cast = |casts: bool| if casts { self.activations } else { Storage::Real };
        let vectors = cast(self.weights == WeightCast::Activations);
        let matrices = if self.weights == WeightCast::MatricesF16 { Storage::F16 } else { vectors };
        let bias = cast(self.gate != GateRound::Stored);
        let router = if self.gate == GateRound::Bias { Storage::Real } else { bias };
        let (of_products, of_experts) = (self.autocast.storage(), self.autocast.of_experts());
        let others = coarser(matrices, of_products);
        Held {
            vectors,
            biases: coarser(vectors, of_products),
            embedding: matrices,
            router: coarser(router, of_products),
            bias,
            quantized: if self.inputs == Inputs::Stored { others } else { Storage::Real },
            experts: coarser(matrices, of_experts),
            others,
        }
    }
}

/// What is rounded to one type and to another in the end: the coarser, of which the other's values are but for their range.
pub(super) fn coarser(one: Storage, other: Storage) -> Storage {
    if other.unit_roundoff() > one.unit_roundoff() { other } else { one }
}
