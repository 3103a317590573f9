//! How images and videos are read.

use strum::{Display, EnumString, VariantNames};

use crate::media::Medium;

/// Which patches a patch sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum VisionSpan {
    /// Those of its own row of the grids.
    Segmented,
    /// All that go through the tower together, as in transformers 5.12 and 5.13.
    Global,
    /// Those of its own time, each a picture of its own.
    Frame,
    /// Those of its own row of the grids that are not after it.
    Causal,
}

/// Which GELU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Gelu {
    /// ½·x·(1 + erf(x/√2)).
    Erf,
    /// ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
    Tanh,
    /// x·σ(1.702·x).
    Quick,
    /// The same, each step rounded to bf16.
    QuickBf16,
}

/// Which channels form a pair that rotates with time, height or width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AxialPair {
    /// i with i + half of all that rotate.
    Half,
    /// i with i + half of its axis's.
    AxisContiguous,
    /// 2i with 2i + 1.
    Interleaved,
}

/// In what order the rotation takes patches to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AxialOrder {
    /// Square by square, as they do.
    Merged,
    /// Row by row.
    Raster,
}

/// Which place of a patch each third of the angles is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AxialAxes {
    /// Time, height, width.
    TimeHeightWidth,
    /// Time, width, height.
    TimeWidthHeight,
    /// Height, width, time.
    HeightWidthTime,
    /// 0, height, width: all times are the first.
    ZeroHeightWidth,
    /// Height and width, and there is no third third.
    HeightWidth,
}

/// In whose places features are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum FeaturePlaces {
    /// The placeholders', in the order of the images.
    Own,
    /// The placeholders', with the images' last first, and the videos'.
    Reversed,
    /// The placeholders', with the images' last first.
    ReversedImages,
    /// The placeholders', with the videos' last chunk first.
    ReversedVideos,
    /// Those of the tokens before the placeholders.
    Early,
    /// Those of the tokens behind them.
    Late,
}

impl FeaturePlaces {
    /// Whether features of images, or of videos, come with the last first.
    pub fn is_reversed(self, medium: Medium) -> bool {
        match self {
            FeaturePlaces::Own | FeaturePlaces::Early | FeaturePlaces::Late => false,
            FeaturePlaces::Reversed => true,
            FeaturePlaces::ReversedImages => medium == Medium::Image,
            FeaturePlaces::ReversedVideos => medium == Medium::Video,
        }
    }
}

/// Where the four patches lie that become one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MergeOrder {
    /// One after the other.
    Block,
    /// Where they would, if patches came row by row.
    RowMajor,
    /// In their square, column by column.
    ColumnMajor,
    /// In their square, the last row first.
    RowsReversed,
    /// In their square, the last column first.
    ColumnsReversed,
    /// In their square, the last first.
    Reversed,
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
    /// The checkpoint's, with pixels taken to come as time, colour, row, column.
    PixelsTimeFirst,
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
