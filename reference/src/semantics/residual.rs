//! What blocks are added to, and what the second norm of a layer reads.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

/// What a block's output is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ResidualFrom {
    /// The stream before the block's norm.
    Stream,
    /// What the norm makes of it.
    Normed,
}

/// What the norm before the feed-forward network reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum PostNormInput {
    /// The stream with attention's output.
    Sum,
    /// The stream before attention.
    Layer,
    /// Attention's output alone.
    Attention,
}

/// Rows of an operator's output that are never written, and stay 0: `experts:32..50` at these positions, `o_proj:50..` at all from
/// one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unwritten {
    /// The operator.
    pub of: Written,
    /// The first position.
    pub from: usize,
    /// The first behind them; none, if they are the last.
    pub until: Option<usize>,
}

/// Operators whose rows may stay unwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Written {
    /// Attention, before its output projection.
    Context,
    /// Attention's output projection.
    OProj,
    /// The routed experts together.
    Experts,
    /// The shared expert.
    Shared,
    /// A dense network.
    Dense,
}

impl Unwritten {
    /// Whether the row at a position is one.
    pub fn has(self, position: usize) -> bool {
        self.from <= position && self.until.is_none_or(|until| position < until)
    }
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unwritten { of, from, until } = self;
        write!(f, "{of}:{from}..{}", until.map_or_else(String::new, |until| until.to_string()))
    }
}

impl FromStr for Unwritten {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected = "expected an operator, a : and two positions with .. in between";
        let (of, rows) = s.split_once(':').ok_or(expected)?;
        let (from, until) = rows.split_once("..").ok_or(expected)?;
        let number = |s: &str| s.parse().map_err(|error: std::num::ParseIntError| error.to_string());
        let of = of.parse().map_err(|error: strum::ParseError| error.to_string())?;
        let until = if until.is_empty() { None } else { Some(number(until)?) };
        Ok(Unwritten { of, from: number(from)?, until })
    }
}
