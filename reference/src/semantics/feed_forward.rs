//! What feed-forward networks compute, and how their outputs are added up.

use strum::{Display, EnumString, VariantNames};

/// Whether a feed-forward network has a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Expert {
    /// w2 · (silu(w1·x) ⊙ w3·x).
    Gated,
    /// w2 · silu(w1·x).
    Nongated,
}

/// How the up projection of SwiGLU-OAI is clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum UpClamp {
    /// To ±ℓ.
    Symmetric,
    /// To at most ℓ.
    Upper,
    /// Not at all.
    None,
    /// To ±ℓ once β is added.
    Sum,
}

/// How the gate of SwiGLU-OAI is clamped.
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

/// Which function a feed-forward network applies to its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Activation {
    /// SiLU; u as it is.
    Swiglu,
    /// SwiGLU-OAI.
    SwigluOai,
    /// GELU in SiLU's place.
    Geglu,
    /// GELU by tanh.
    GegluTanh,
    /// x·σ(1.702·x).
    GegluQuick,
    /// max(x, 0).
    Reglu,
}

/// In which networks of a layer with experts the activation slips; in the others it is the configuration's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ActivationIn {
    /// In all, and in dense layers.
    All,
    /// The routed experts.
    Routed,
    /// The shared expert.
    Shared,
}

/// What the shared expert's output is multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum SharedScale {
    /// Nothing.
    One,
    /// What the routed experts' sum is multiplied by.
    Routed,
    /// The reciprocal of that.
    Reciprocal,
    /// 2: it is added twice.
    Twice,
}
