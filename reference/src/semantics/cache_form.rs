//! Grids to which keys and values are quantized by scales of their own, or clipped.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumIter, EnumString, VariantNames};

/// What keys or values become as they are kept: `keys:int8/head`, `values:e4m3/token`, `keys:e5m2`, `both:clip3`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheForm {
    /// What is kept so.
    pub of: CacheHalf,
    /// The numbers that they become.
    pub grid: CacheGrid,
}

/// The keys of a cache, its values, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum CacheHalf {
    /// Keys.
    Keys,
    /// Values.
    Values,
    /// Keys and values, each for itself.
    Both,
}

impl CacheHalf {
    /// Whether keys are among it, and values.
    pub fn has(self) -> [bool; 2] {
        [self != CacheHalf::Values, self != CacheHalf::Keys]
    }
}

/// Numbers to which others are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CacheGrid {
    /// Steps of such numbers, times a scale of each group of elements.
    Scaled(CacheSteps, ScaleOf),
    /// E5M2, without a scale.
    E5m2,
    /// What is below −c or above c becomes that: of a scale that is fixed, and too small. Written `clip3`.
    Clip(f64),
}

/// What is multiplied by a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum CacheSteps {
    /// Whole numbers from −127 to 127.
    Int8,
    /// Whole numbers from −7 to 7.
    Int4,
    /// Whole numbers from 0 to 255, beside the least element.
    Uint8,
    /// Whole numbers from 0 to 15, beside the least element.
    Uint4,
    /// E4M3, up to 448.
    E4m3,
}

/// What has a scale of its own, in what one call appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ScaleOf {
    /// Each head of each token.
    Head,
    /// Each token.
    Token,
    /// Each channel of each head.
    Channel,
    /// All that is appended.
    Call,
}

impl fmt::Display for CacheForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.of)?;
        match self.grid {
            CacheGrid::Scaled(steps, scale) => write!(f, "{steps}/{scale}"),
            CacheGrid::E5m2 => f.write_str("e5m2"),
            CacheGrid::Clip(limit) => write!(f, "clip{limit}"),
        }
    }
}

impl FromStr for CacheForm {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected =
            "expected keys, values or both, a : and a type with a / and what has a scale, e5m2, or clip and a number";
        let (of, grid) = s.split_once(':').ok_or(expected)?;
        let word = |error: strum::ParseError| error.to_string();
        let grid = match (grid.strip_prefix("clip"), grid.split_once('/')) {
            (None, None) if grid == "e5m2" => CacheGrid::E5m2,
            (Some(limit), _) => {
                CacheGrid::Clip(limit.parse().map_err(|error: std::num::ParseFloatError| error.to_string())?)
            }
            (None, Some((steps, scale))) => {
                CacheGrid::Scaled(steps.parse().map_err(word)?, scale.parse().map_err(word)?)
            }
            (None, None) => return Err(expected.to_owned()),
        };
        Ok(CacheForm { of: of.parse().map_err(word)?, grid })
    }
}
