//! Where ports are known to slip (SPEC F): what no document says, one enum each, the right reading first.

use std::fmt;
use std::str::FromStr;

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

/// Whether norm or rotation comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormOrder {
    /// Norm, then rotation.
    NormFirst,
    /// Rotation, then norm.
    RopeFirst,
}

/// What rotates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopeOn {
    /// Queries and keys.
    QueryKey,
    /// Queries: the cache holds keys that were never rotated.
    Query,
    /// Nothing.
    None,
}

/// By what the exponent of a rotation's frequency is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopeFrequency {
    /// The number of rotated channels.
    RotaryDim,
    /// The number of all channels of a head.
    HeadDim,
}

/// What positions are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePosition {
    /// f32, which holds each.
    F32,
    /// bf16, which holds each up to 256.
    Bf16,
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

/// What the last block of keys is filled up with before its largest score is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaPad {
    /// Nothing that counts: −∞.
    Masked,
    /// Zeros, which are larger than negative scores.
    Zero,
}

/// What of the keys a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaMask {
    /// What is not after it, of the blocks that are chosen for it.
    Token,
    /// All of these blocks.
    Block,
    /// What is not after it, chosen or not.
    All,
}

/// By which weights the index branch norms its queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexNorm {
    /// Each by its own.
    Own,
    /// Queries by the keys', and keys by the queries'.
    Swapped,
    /// By none: they are not normed.
    None,
}

/// What the index branch takes for its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexKey {
    /// Its own.
    Own,
    /// The first key head of attention, after norm and rotation.
    Main,
}

/// Which tokens the index branch scores for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexMask {
    /// Those before it and itself.
    Token,
    /// The later ones of its own block, too.
    Block,
}

/// How often a token reads its own block, where that is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaOwn {
    /// Once.
    Once,
    /// Twice: as it is chosen, and as it is forced.
    Twice,
}

/// How attention reads the rows of the choice, which are written with the groups of a token together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaLayout {
    /// As they are written.
    TokenMajor,
    /// As if the tokens of a group were together.
    HeadMajor,
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

/// Which experts a token is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ExpertChoice {
    /// The k best.
    Distinct,
    /// The best, k times.
    Best,
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

/// Which function a feed-forward network applies to its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Activation {
    /// SiLU; u as it is.
    Swiglu,
    /// SwiGLU-OAI.
    SwigluOai,
}

/// Positions that are off from one on: `20+1`, `7-1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PositionShift {
    /// The first position that is off.
    pub from: usize,
    /// By how much.
    pub by: i32,
}

impl PositionShift {
    /// The position taken for `position`; none is below 0.
    pub fn of(self, position: usize) -> usize {
        let shifted = if self.by < 0 { usize::saturating_sub } else { usize::saturating_add };
        if position < self.from { position } else { shifted(position, self.by.unsigned_abs() as usize) }
    }
}

impl fmt::Display for PositionShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:+}", self.from, self.by)
    }
}

impl FromStr for PositionShift {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let sign = s.find(['+', '-']).ok_or("expected a position, a sign and a number")?;
        let number = |error: std::num::ParseIntError| error.to_string();
        Ok(PositionShift { from: s[..sign].parse().map_err(number)?, by: s[sign..].parse().map_err(number)? })
    }
}
