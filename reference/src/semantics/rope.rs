//! What rotates, by what angles, and which channels form a pair.

mod parts;
mod scaling;

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumIter, EnumString, VariantNames};

pub use self::scaling::{RopeScaling, Stretch};
use crate::Storage;

/// Which channels of a head rotate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePart {
    /// The first `rotary_dim` channels.
    First,
    /// The last.
    Last,
}

/// Which channels form a rotated pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePair {
    /// i with i + `rotary_dim` / 2.
    Half,
    /// 2i with 2i + 1.
    Interleaved,
    /// i with i + `head_dim` / 2, as if all channels rotated.
    HalfHead,
}

/// How queries or keys rotate, where the other of them is as it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Rotated {
    /// As they have to.
    Once,
    /// Twice.
    Twice,
    /// The other way.
    Back,
    /// The last channels of each head, not the first.
    Last,
    /// Neighbouring channels form a pair.
    Interleaved,
    /// The two halves of what is rotated are exchanged behind it.
    Exchanged,
}

/// What rotates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopeOn {
    /// Queries and keys.
    QueryKey,
    /// Queries: the cache holds keys that were never rotated.
    Query,
    /// Keys.
    Key,
    /// Queries, keys, and values like keys.
    QueryKeyValue,
    /// Nothing.
    None,
}

impl RopeOn {
    /// In calls of one token, of which another reading may say what rotates, if not queries and keys.
    #[must_use]
    pub fn or(self, of_one: RopeOn, is_one: bool) -> RopeOn {
        if is_one && of_one != RopeOn::QueryKey { of_one } else { self }
    }

    /// Whether queries rotate.
    pub fn has_queries(self) -> bool {
        matches!(self, RopeOn::QueryKey | RopeOn::Query | RopeOn::QueryKeyValue)
    }

    /// Whether keys rotate.
    pub fn has_keys(self) -> bool {
        matches!(self, RopeOn::QueryKey | RopeOn::Key | RopeOn::QueryKeyValue)
    }
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

/// What inverse frequencies or angles are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AngleType {
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// f16.
    F16,
}

impl AngleType {
    /// What they are rounded to.
    pub fn storage(self) -> Storage {
        match self {
            AngleType::F32 => Storage::Real,
            AngleType::Bf16 => Storage::Bf16,
            AngleType::F16 => Storage::F16,
        }
    }
}

/// Where the positions of a call begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopeCall {
    /// After those of the calls before it.
    Continued,
    /// At 0.
    Restarted,
}

/// Positions that are off from one on: `20+1`, `7-1`, and `20@19`, where a table's last row stands for all behind it, or `20%20`,
/// where it begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PositionShift {
    /// The first position that is off.
    pub from: usize,
    /// What stands for it, and for those behind it.
    pub to: Shifted,
}

/// What stands for positions that are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shifted {
    /// Those so many behind them.
    By(i32),
    /// One for all.
    At(usize),
    /// Their remainders.
    Modulo(usize),
}

impl PositionShift {
    /// The position taken for `position`; none is below 0.
    pub fn of(self, position: usize) -> usize {
        match self.to {
            _ if position < self.from => position,
            Shifted::By(by) if by < 0 => position.saturating_sub(by.unsigned_abs() as usize),
            Shifted::By(by) => position.saturating_add(by.unsigned_abs() as usize),
            Shifted::At(row) => row,
            Shifted::Modulo(rows) => position % rows.max(1),
        }
    }
}

impl fmt::Display for PositionShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Shifted::By(by) => write!(f, "{}{by:+}", self.from),
            Shifted::At(row) => write!(f, "{}@{row}", self.from),
            Shifted::Modulo(rows) => write!(f, "{}%{rows}", self.from),
        }
    }
}

impl FromStr for PositionShift {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let sign = s.find(['+', '-', '@', '%']).ok_or("expected a position, one of +, -, @ or %, and a number")?;
        let number = |error: std::num::ParseIntError| error.to_string();
        let to = match s.as_bytes()[sign] {
            b'@' => Shifted::At(s[sign + 1..].parse().map_err(number)?),
            b'%' => Shifted::Modulo(s[sign + 1..].parse().map_err(number)?),
            _ => Shifted::By(s[sign..].parse().map_err(number)?),
        };
        Ok(PositionShift { from: s[..sign].parse().map_err(number)?, to })
    }
}
