//! The points on which readings of the vision tower differ: those of part D, then where ports are known to slip (part F).

use strum::{Display, EnumString, VariantNames};

/// D48: which patches a patch sees. S1 CH4.2: all; the code: those of its own image, or chunk of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum VisionSpan {
    /// Those of its own row of the grids.
    Segmented,
    /// All that go through the tower together, as in transformers 5.12 and 5.13.
    Global,
}

/// D50: which GELU. S1 does not say; the code has the exact one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Gelu {
    /// ½·x·(1 + erf(x/√2)).
    Erf,
    /// ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
    Tanh,
}

/// D52: which channels form a pair that rotates with time, height or width. S1's text suggests each axis's own run of
/// channels; the code has halves of all.
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
