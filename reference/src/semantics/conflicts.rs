//! The points on which the documents disagree, one enum each.

use strum::{Display, EnumString, VariantNames};

/// D01: which channels of a head rotate. S1 CH2.4, CH3.3 and S2 §5 say the first; S0 CH2.5 and CH3.5 the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePart {
    /// The first `rotary_dim` channels.
    First,
    /// The last.
    Last,
}

/// D02: which channels form a rotated pair. No document says; the code has halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePair {
    /// i with i + `rotary_dim` / 2.
    Half,
    /// 2i with 2i + 1.
    Interleaved,
}

/// D05: over what the query and key norms take their mean square. S2 and the code: the whole projection; S0 CH2.5 and
/// S3: each head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum QkNorm {
    /// All heads of a token together.
    FullProjection,
    /// Each head by itself, with its own part of the weight, or all with one.
    PerHead,
    /// No norm.
    None,
}

/// D08: what a norm multiplies by. M2: its weight; M3: one more than its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormWeight {
    /// w.
    Plain,
    /// 1 + w, as in Gemma.
    OnePlus,
}

/// D09: where ε stands in a norm. All but S3 have it inside the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EpsPlace {
    /// x / √(mean x² + ε).
    Inside,
    /// x / (√(mean x²) + 10⁻⁸), as in S3.
    Outside,
}

/// D31: whether a feed-forward network has a gate. S3's expert and S1 CH5.2's words have none; the code has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Expert {
    /// w2 · (silu(w1·x) ⊙ w3·x).
    Gated,
    /// w2 · silu(w1·x).
    Nongated,
}

/// D32: how the gate of SwiGLU-OAI is clamped. S1 CH5.2 and CH8.1: on both sides; the code: from above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum GateClamp {
    /// To at most ℓ.
    Upper,
    /// To ±ℓ.
    Symmetric,
    /// Not at all.
    None,
}

/// D21: for whom blocks of keys are chosen. S1 CH3.1 and CH3.3: once for all heads; the code: for each group of heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaSelect {
    /// For all heads, by the largest score of any index head.
    HeadMax,
    /// For each group by the index head that is its own.
    PerGroup,
}

/// D22: which blocks a token reads whatever their scores. S1 CH3.3 and the code: its own; S1 CH3.4: the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaLocal {
    /// Its own, and those before it up to the config's number.
    OwnBlock,
    /// The first.
    FirstBlock,
    /// None.
    None,
}

/// D24: by what token scores are scaled. S1 CH3.5 and the code: nothing, which chooses alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
pub enum MsaScoreScale {
    /// 1.
    #[strum(serialize = "1")]
    One,
    /// 1/√d.
    #[strum(serialize = "1/sqrt(d)")]
    HeadDim,
}

/// What a block's score is of its tokens' scores. S1 explains why it is the largest; an engine has a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaPool {
    /// The largest.
    Max,
    /// The mean.
    Mean,
    /// The logarithm of the sum of their exponentials.
    Lse,
}

/// D35: which scores become the routing weights. S1, S2 and S4 and the code: those without the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoutingWeights {
    /// Scores alone.
    Unbiased,
    /// Scores plus bias.
    Biased,
}

/// D35: what is added to the sum that the routing weights are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
pub enum RouterEps {
    /// Nothing.
    #[strum(serialize = "0")]
    Zero,
    /// 10⁻²⁰, as in one engine.
    #[strum(serialize = "1e-20")]
    Tiny,
}

/// D36: the router's nonlinearity. All but S3 have the sigmoid.
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
