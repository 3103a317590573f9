//! How experts are chosen and weighted.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

/// Which scores become the routing weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoutingWeights {
    /// Scores alone.
    Unbiased,
    /// Scores plus bias.
    Biased,
    /// 1, which is then divided as scores are.
    Uniform,
    /// 1, and divided by nothing: the weights are left out.
    Ones,
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
    /// Chosen by σ(z) + bias, weighed by the softmax of the chosen logits.
    SoftmaxChosen,
    /// σ(z + bias), by which experts are chosen and weighed.
    BiasedSigmoid,
    /// √softplus(z) in σ's place, as in DeepSeek-V4.
    SqrtSoftplus,
}

impl RouterScore {
    /// Whether the weights are a softmax of the chosen logits.
    pub(crate) fn is_softmax_of_chosen(self) -> bool {
        matches!(self, RouterScore::SoftmaxTopk | RouterScore::SoftmaxChosen)
    }
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
    /// The k best but for the first expert, which is never chosen.
    NotFirst,
    /// The k best but for the last.
    NotLast,
}

/// Groups of experts, of which a token is sent to those in the best, as in DeepSeek-V3: `8/4` for 4 of 8. A group's score is
/// the sum of its two best experts'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExpertGroups {
    /// Groups, each of as many experts, one after the other.
    pub groups: usize,
    /// Those that are chosen from.
    pub chosen: usize,
}

impl fmt::Display for ExpertGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.groups, self.chosen)
    }
}

impl FromStr for ExpertGroups {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (groups, chosen) = s.split_once('/').ok_or("expected two numbers with a / in between")?;
        let number = |error: std::num::ParseIntError| error.to_string();
        Ok(ExpertGroups { groups: groups.parse().map_err(number)?, chosen: chosen.parse().map_err(number)? })
    }
}

/// What a network of a layer takes for its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NetworkInput {
    /// The norm of the stream behind attention.
    Normed,
    /// That stream itself.
    Residual,
    /// The stream before the layer.
    LayerInput,
}

/// Where routing weights are multiplied in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum WeightsOn {
    /// The experts' outputs.
    Output,
    /// Their inputs, as in Llama 4.
    Input,
}
