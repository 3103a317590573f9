//! What is kept of earlier tokens.

use strum::{Display, EnumString, VariantNames};

use crate::Storage;

/// What keys and values are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum CacheType {
    /// What the precision says.
    Own,
    /// E4M3, without a scale.
    E4m3,
    /// bf16.
    Bf16,
}

impl CacheType {
    /// What they are rounded to, beside what the precision says.
    pub fn storage(self) -> Option<Storage> {
        match self {
            CacheType::Own => None,
            CacheType::E4m3 => Some(Storage::E4m3),
            CacheType::Bf16 => Some(Storage::Bf16),
        }
    }
}

/// What becomes of the rows where one call's follow another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum CacheSeam {
    /// All are kept.
    Kept,
    /// The last of the calls before is overwritten with the first of the new one.
    Overwritten,
    /// The last of the calls before is zeros.
    ZeroBefore,
    /// The first of the new call is zeros.
    ZeroAfter,
}

impl CacheSeam {
    /// The row that is in the place of another, in a call whose rows begin at `first`.
    pub fn source(self, row: usize, first: usize) -> usize {
        if self == CacheSeam::Overwritten && row + 1 == first { first } else { row }
    }

    /// The row that is zeros.
    pub fn zero(self, first: usize) -> Option<usize> {
        match self {
            CacheSeam::Kept | CacheSeam::Overwritten => None,
            CacheSeam::ZeroBefore => first.checked_sub(1),
            CacheSeam::ZeroAfter => Some(first),
        }
    }
}
