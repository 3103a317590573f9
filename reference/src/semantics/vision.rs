//! How images and videos are read.

use strum::{Display, EnumString, VariantNames};

/// Which patches a patch sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum VisionSpan {
    /// Those of its own row of the grids.
    Segmented,
    /// All that go through the tower together, as in transformers 5.12 and 5.13.
    Global,
}

/// Which GELU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Gelu {
    /// ½·x·(1 + erf(x/√2)).
    Erf,
    /// ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
    Tanh,
}

/// Which channels form a pair that rotates with time, height or width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AxialPair {
    /// i with i + half of all that rotate.
    Half,
    /// i with i + half of its axis's.
    AxisContiguous,
}

/// Where the four patches lie that become one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MergeOrder {
    /// One after the other.
    Block,
    /// Where they would, if patches came row by row.
    RowMajor,
}

/// What time a chunk of a video begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ChunkTime {
    /// 0.
    Reset,
    /// Where the chunk before it ended.
    Continued,
}

/// In what order a patch embedding's weight has colours, times and places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum PatchOrder {
    /// Colour, time, row, column: the checkpoint's.
    ColourFirst,
    /// Time, colour, row, column.
    TimeFirst,
}

/// Whether the tower's last layer is followed by a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum PostNorm {
    /// No.
    None,
    /// By one with a weight of ones and a bias of zeros: no checkpoint has its weights.
    Applied,
}
