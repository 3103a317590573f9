//! The points on which readings of the vision tower differ: those of part D, then where ports are known to slip (part F).

use strum::{Display, EnumString, VariantNames};

use crate::error::ParseError;
use crate::words::word;

/// A reading of the vision tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vision {
    /// D48.
    pub span: VisionSpan,
    /// D50.
    pub gelu: Gelu,
    /// D52.
    pub axial_pair: AxialPair,
    /// Where the patches of a token lie.
    pub merge_order: MergeOrder,
    /// What time a chunk of a video begins at.
    pub chunk_time: ChunkTime,
    /// How the patch embedding's weight is read.
    pub patch_order: PatchOrder,
    /// Whether a norm follows the last layer.
    pub post_norm: PostNorm,
}

impl Vision {
    /// As released; the documents are silent, or say less.
    pub(super) const RELEASED: Vision = Vision {
        span: VisionSpan::Segmented,
        gelu: Gelu::Erf,
        axial_pair: AxialPair::Half,
        merge_order: MergeOrder::Block,
        chunk_time: ChunkTime::Reset,
        patch_order: PatchOrder::ColourFirst,
        post_norm: PostNorm::None,
    };

    pub(super) fn fields(self) -> [(&'static str, String); 7] {
        [
            ("vision_attention", self.span.to_string()),
            ("gelu", self.gelu.to_string()),
            ("axial_pair", self.axial_pair.to_string()),
            ("merge_order", self.merge_order.to_string()),
            ("chunk_time", self.chunk_time.to_string()),
            ("patch_order", self.patch_order.to_string()),
            ("vision_post_norm", self.post_norm.to_string()),
        ]
    }

    /// Changes one field; none of them, if another is named.
    pub(super) fn set(&mut self, field: &str, value: &str) -> Option<Result<(), ParseError>> {
        Some(match field {
            "vision_attention" => word(field, value).map(|word| self.span = word),
            "gelu" => word(field, value).map(|word| self.gelu = word),
            "axial_pair" => word(field, value).map(|word| self.axial_pair = word),
            "merge_order" => word(field, value).map(|word| self.merge_order = word),
            "chunk_time" => word(field, value).map(|word| self.chunk_time = word),
            "patch_order" => word(field, value).map(|word| self.patch_order = word),
            "vision_post_norm" => word(field, value).map(|word| self.post_norm = word),
            _ => return None,
        })
    }
}

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
