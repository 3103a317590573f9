//! What attention scores and sees.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumIter, EnumString, VariantNames};

use crate::Storage;

/// What queries are rounded to where scores are taken, or probabilities where values are weighed, beside what the precision says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum OperandType {
    /// Nothing.
    Own,
    /// E4M3, without a scale.
    E4m3,
    /// bf16.
    Bf16,
}

impl OperandType {
    /// What they are rounded to.
    pub fn storage(self) -> Option<Storage> {
        match self {
            OperandType::Own => None,
            OperandType::E4m3 => Some(Storage::E4m3),
            OperandType::Bf16 => Some(Storage::Bf16),
        }
    }
}

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
    /// As many of the first keys as its call has tokens up to it: the mask of a first call in a later one, where own keys are not
    /// seen.
    Call,
    /// All of them: no mask. Attention to chosen blocks has a mask of its own, [`MsaMask`](super::MsaMask).
    All,
}

/// Whose heads are taken as if all tokens of a head stood together, where the heads of a token do, or the other way round: a view of
/// other dimensions in place of a transposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Viewed {
    /// Nobody's.
    Nothing,
    /// Queries'.
    Queries,
    /// Keys'.
    Keys,
    /// Values'.
    Values,
    /// Those of all three.
    Projections,
    /// Those of attention's context.
    Context,
    /// Those of all four.
    All,
}

impl Viewed {
    /// Whether queries, keys and values are among them.
    pub(crate) fn has(self) -> [bool; 3] {
        let all = matches!(self, Viewed::Projections | Viewed::All);
        [Viewed::Queries, Viewed::Keys, Viewed::Values].map(|one| all || self == one)
    }

    /// Whether the context is.
    pub(crate) fn has_context(self) -> bool {
        matches!(self, Viewed::Context | Viewed::All)
    }
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

/// What queries are multiplied by, by their position t: 1 + β·ln(1 + ⌊(t + 1)/m⌋), as in Llama 4. Written `0.1/8192`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    /// β.
    pub scale: f64,
    /// m, where the first position counts as 1; written with a `+` before it, where it counts as 0.
    pub every: usize,
    /// What the first position counts as.
    pub first: usize,
}

impl Temperature {
    /// At a position.
    pub fn of(self, position: usize) -> f64 {
        1.0 + self.scale * (((position + self.first) / self.every.max(1)) as f64).ln_1p()
    }
}

impl fmt::Display for Temperature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.first == 0 { "+" } else { "" };
        write!(f, "{}/{sign}{}", self.scale, self.every)
    }
}

impl FromStr for Temperature {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (scale, every) = s.split_once('/').ok_or("expected two numbers with a / in between")?;
        let scale = scale.parse().map_err(|error: std::num::ParseFloatError| error.to_string())?;
        let first = usize::from(!every.starts_with('+'));
        let every =
            every.trim_start_matches('+').parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
        Ok(Temperature { scale, every, first })
    }
}
