//! What blocks are added to, and what the second norm of a layer reads.

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
