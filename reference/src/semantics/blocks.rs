//! How blocks of keys are scored, chosen and read.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumIter, EnumString, VariantNames};

/// For whom blocks of keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaSelect {
    /// For all heads, by the largest score of any index head.
    HeadMax,
    /// For each group by the index head that is its own.
    PerGroup,
}

/// Which blocks a token reads whatever their scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaLocal {
    /// Its own, and those before it up to the config's number.
    OwnBlock,
    /// The first.
    FirstBlock,
    /// The next token's, as far as there is one.
    NextBlock,
    /// The one that would be its own, if positions counted from 0 in every call.
    CallBlock,
    /// None.
    None,
}

/// By what token scores are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
pub enum MsaScoreScale {
    /// 1.
    #[strum(serialize = "1")]
    One,
    /// 1/√d.
    #[strum(serialize = "1/sqrt(d)")]
    HeadDim,
}

/// What a block's score is of its tokens' scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaPool {
    /// The largest.
    Max,
    /// The mean.
    Mean,
    /// The logarithm of the sum of their exponentials.
    Lse,
    /// The largest of their absolute values.
    Absolute,
    /// The smallest.
    Min,
}

/// What the last block of keys is filled up with before its largest score is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum MsaPad {
    /// Nothing that counts: −∞.
    Masked,
    /// Zeros, which are larger than negative scores.
    Zero,
    /// Nothing, and it is not chosen unless it is full, not even by its own tokens.
    Dropped,
}

/// How the channels of an index head rotate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexRotated {
    /// As is said of those of all heads.
    AsAll,
    /// The last channels, not the first.
    Last,
    /// Neighbouring channels form a pair.
    Interleaved,
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

/// What the index branch projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexInput {
    /// What attention does: the stream after the layer's first norm.
    Normed,
    /// The stream itself.
    Stream,
}

/// What the index branch's cache holds of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexCache {
    /// Keys after norm and rotation.
    Own,
    /// Keys that rotate, but were not normed.
    Unnormed,
    /// Keys that were normed, and do not rotate.
    Unrotated,
    /// Keys as they are projected.
    Projected,
    /// Of tokens that are decoded one by one, nothing: rows of zeros, which these tokens read, too.
    Unwritten,
    /// Of these the key before theirs once more.
    Repeated,
}

/// By which index heads' scores a group's blocks are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum IndexHeads {
    /// Its own.
    Own,
    /// All heads' sum.
    Sum,
    /// All heads' mean.
    Mean,
    /// The largest of all heads.
    Max,
    /// The head after its own; the first, after the last.
    Next,
    /// The heads in reverse.
    Reversed,
    /// The first, for all groups.
    First,
    /// All heads', added up token by token before the largest is taken.
    TokenSum,
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
    /// As if the groups of a token were together, where the tokens of a group are.
    Transposed,
}

/// What the tokens of a call have in common with one of their tile of so many: `choice/8`, `local_last/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MsaTile {
    /// What they have in common.
    pub of: TileShares,
    /// Tokens of a tile.
    pub size: usize,
}

/// What a tile's tokens have of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum TileShares {
    /// The blocks that are chosen for the first.
    Choice,
    /// Those that are chosen for the last.
    ChoiceLast,
    /// The local blocks of the first.
    Local,
    /// Those of the last.
    LocalLast,
}

impl MsaTile {
    /// The row, of a call of so many, whose choice is another's.
    pub(crate) fn choice(self, row: usize, rows: usize) -> usize {
        match self.of {
            TileShares::Choice => self.first(row),
            TileShares::ChoiceLast => self.last(row, rows),
            TileShares::Local | TileShares::LocalLast => row,
        }
    }

    /// The row whose local blocks are another's.
    pub(crate) fn local(self, row: usize, rows: usize) -> usize {
        match self.of {
            TileShares::Local => self.first(row),
            TileShares::LocalLast => self.last(row, rows),
            TileShares::Choice | TileShares::ChoiceLast => row,
        }
    }

    fn first(self, row: usize) -> usize {
        row / self.size.max(1) * self.size.max(1)
    }

    fn last(self, row: usize, rows: usize) -> usize {
        (self.first(row) + self.size.max(1)).min(rows) - 1
    }
}

impl fmt::Display for MsaTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.of, self.size)
    }
}

impl FromStr for MsaTile {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected = || format!("expected {}, a / and a number", TileShares::VARIANTS.join(" or "));
        let (of, size) = s.split_once('/').ok_or_else(expected)?;
        Ok(MsaTile { of: of.parse().map_err(|_| expected())?, size: size.parse().map_err(|_| expected())? })
    }
}
