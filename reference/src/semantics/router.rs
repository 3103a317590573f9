//! How experts are chosen and weighted.

use strum::{Display, EnumString, VariantNames};

/// Which scores become the routing weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoutingWeights {
    /// Scores alone.
    Unbiased,
    /// Scores plus bias.
    Biased,
}

/// What is added to the sum that the routing weights are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
pub enum RouterEps {
    /// Nothing.
    #[strum(serialize = "0")]
    Zero,
    /// 10⁻²⁰, as in one engine.
    #[strum(serialize = "1e-20")]
    Tiny,
}

/// The router's nonlinearity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RouterScore {
    /// σ(z), chosen by σ(z) + bias.
    Sigmoid,
    /// The k largest logits, and their softmax.
    SoftmaxTopk,
    /// The softmax of all logits in σ's place: a port's mistake, in no document.
    Softmax,
}

/// By what routing weights are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Renormalize {
    /// The sum of the chosen experts' scores.
    Chosen,
    /// Nothing.
    Nothing,
    /// The sum of all experts' scores.
    All,
}

/// Which experts a token is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ExpertChoice {
    /// The k best.
    Distinct,
    /// The best, k times.
    Best,
}
