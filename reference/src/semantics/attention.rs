//! What attention scores and sees.

use strum::{Display, EnumString, VariantNames};

use crate::Storage;

/// By what scores are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AttentionScale {
    /// 1/√d.
    HeadDim,
    /// 1.
    None,
    /// 1/√(rotated channels).
    RotaryDim,
    /// 1/√(d/2).
    HalfHeadDim,
}

/// Which key head a query head reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum KeyHead {
    /// ⌊h·G/H⌋: neighbours share one.
    Grouped,
    /// h mod G.
    Tiled,
}

/// Which tokens a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Causal {
    /// Those before it and itself.
    Inclusive,
    /// The next one, too.
    Ahead,
    /// Those before it only; the first one, which would see none, sees all alike.
    Strict,
    /// All of them: no mask.
    All,
}

/// What scores are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ScoreType {
    /// As they are computed.
    F32,
    /// bf16.
    Bf16,
}

impl ScoreType {
    /// What they are rounded to.
    pub fn storage(self) -> Storage {
        match self {
            ScoreType::F32 => Storage::Real,
            ScoreType::Bf16 => Storage::Bf16,
        }
    }
}
