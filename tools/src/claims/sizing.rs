//! All numbers of one model: what it takes to deploy it.

use serde::Serialize;

use super::flops::Work;
use super::hyperparameters::Hyperparameters;
use super::memory::{BF16, FP8};
use super::parameters::Part;

/// The numbers of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sizing {
    /// Parameters by part; parts that the model lacks are left out.
    pub parameters: Vec<PartSize>,
    /// Of all parts.
    pub total_parameters: usize,
    /// Those that one text token is computed with.
    pub active_parameters: usize,
    /// The same without embedding and head.
    pub active_in_layers: usize,
    /// Bytes of the weights.
    pub weights: Weights,
    /// Bytes of the cache.
    pub cache: Cache,
    /// Operations by kind of work; what the model has none of is left out.
    pub operations: Vec<WorkSize>,
    /// All work of a token.
    pub total_operations: Operations,
}

/// The parameters of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartSize {
    /// The part.
    pub part: Part,
    /// All of them.
    pub total: usize,
    /// Those that one text token is computed with.
    pub active: usize,
}

/// Bytes of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Weights {
    /// As the configuration says they are stored, scales included.
    pub stored: f64,
    /// All in bf16.
    pub bf16: f64,
}

/// Bytes of the cache of keys and values; half of them in FP8.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cache {
    /// Keys and values of a token in bf16.
    pub of_token: f64,
    /// The index branch's keys of a token in bf16.
    pub index_of_token: f64,
    /// Tokens of the context.
    pub context: usize,
    /// Both, of the context, in bf16.
    pub bf16: f64,
    /// The same in FP8.
    pub fp8: f64,
}

/// The operations of a kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkSize {
    /// The work.
    pub work: Work,
    /// Its operations.
    pub operations: Operations,
}

/// Operations of a token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Operations {
    /// Of a prompt as long as the context, on average.
    pub prefill: f64,
    /// Decoded as the last of the context.
    pub decode: f64,
}

impl Sizing {
    /// The numbers of a model at a context of so many tokens.
    pub fn of(m: &Hyperparameters, context: usize) -> Self {
        let tokens = context as f64;
        let part = |part| PartSize { part, total: m.part(part), active: m.active_part(part) };
        let work = |work| {
            let operations = Operations { prefill: m.prefill(work, tokens), decode: m.decode(work, tokens) };
            WorkSize { work, operations }
        };
        Sizing {
            parameters: Part::all().map(part).filter(|size| size.total > 0).collect(),
            total_parameters: m.total(),
            active_parameters: m.active(),
            active_in_layers: m.active_in_layers(),
            weights: Weights { stored: m.stored(), bf16: m.weights_in(BF16) },
            cache: Cache {
                of_token: m.cached_values() * BF16,
                index_of_token: m.cached_index_keys() * BF16,
                context,
                bf16: m.cache(tokens, BF16),
                fp8: m.cache(tokens, FP8),
            },
            operations: Work::all().map(work).filter(|size| size.operations.decode > 0.0).collect(),
            total_operations: Operations { prefill: m.prefill_total(tokens), decode: m.decode_total(tokens) },
        }
    }
}
