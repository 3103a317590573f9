//! What norms divide and multiply by, and what they are applied to.

use strum::{Display, EnumString, VariantNames};

/// What a norm multiplies by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormWeight {
    /// w.
    Plain,
    /// 1 + w, as in Gemma.
    OnePlus,
}

/// Where ε stands in a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EpsPlace {
    /// x / √(mean x² + ε).
    Inside,
    /// x / (√(mean x²) + 10⁻⁸), as in S3.
    Outside,
}

/// Whether norms take the mean off first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormMean {
    /// No: RMSNorm.
    Kept,
    /// Yes: `LayerNorm` without a bias.
    Subtracted,
}

/// Whether the head reads the norm of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum FinalNorm {
    /// It does.
    Applied,
    /// It reads the stream itself.
    Missing,
}

/// Over what the query and key norms take their mean square.
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

/// What is normed beside where the document has a norm on queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum QkNormOn {
    /// Queries and keys.
    QueryKey,
    /// Queries.
    Query,
    /// Queries, keys, and values by the keys' weight.
    QueryKeyValue,
}

/// Whether norm or rotation comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormOrder {
    /// Norm, then rotation.
    NormFirst,
    /// Rotation, then norm.
    RopeFirst,
    /// The same of queries alone.
    QueryRopeFirst,
    /// The same of keys alone.
    KeyRopeFirst,
}

impl NormOrder {
    /// Whether queries, and keys, are rotated first.
    pub fn rotates_first(self) -> [bool; 2] {
        match self {
            NormOrder::NormFirst => [false, false],
            NormOrder::RopeFirst => [true, true],
            NormOrder::QueryRopeFirst => [true, false],
            NormOrder::KeyRopeFirst => [false, true],
        }
    }
}
