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
}
