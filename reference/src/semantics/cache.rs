//! What is kept of earlier tokens.

use std::fmt;
use std::str::FromStr;

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
    /// E4M3, keys alone.
    E4m3Keys,
    /// E4M3, values alone.
    E4m3Values,
    /// bf16, keys alone.
    Bf16Keys,
    /// bf16, values alone.
    Bf16Values,
}

impl CacheType {
    /// What keys and values are rounded to, beside what the precision says.
    pub fn storages(self) -> [Option<Storage>; 2] {
        let (e4m3, bf16) = (Some(Storage::E4m3), Some(Storage::Bf16));
        match self {
            CacheType::Own => [None, None],
            CacheType::E4m3 => [e4m3, e4m3],
            CacheType::Bf16 => [bf16, bf16],
            CacheType::E4m3Keys => [e4m3, None],
            CacheType::E4m3Values => [None, e4m3],
            CacheType::Bf16Keys => [bf16, None],
            CacheType::Bf16Values => [None, bf16],
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
    /// The last of the calls before has a key of zeros.
    ZeroKeyBefore,
    /// The same, a value.
    ZeroValueBefore,
    /// The first of the new call has a key of zeros.
    ZeroKeyAfter,
    /// The same, a value.
    ZeroValueAfter,
}

impl CacheSeam {
    /// The row that is in the place of another, in a call whose rows begin at `first`.
    pub fn source(self, row: usize, first: usize) -> usize {
        if self == CacheSeam::Overwritten && row + 1 == first { first } else { row }
    }

    /// The row that is zeros among keys, and among values.
    pub fn zero(self, first: usize) -> [Option<usize>; 2] {
        let before = first.checked_sub(1);
        match self {
            CacheSeam::Kept | CacheSeam::Overwritten => [None, None],
            CacheSeam::ZeroBefore => [before, before],
            CacheSeam::ZeroAfter => [Some(first); 2],
            CacheSeam::ZeroKeyBefore => [before, None],
            CacheSeam::ZeroValueBefore => [None, before],
            CacheSeam::ZeroKeyAfter => [Some(first), None],
            CacheSeam::ZeroValueAfter => [None, Some(first)],
        }
    }
}

/// Keys that are not seen where a call follows others, because pages that are not full are left out: `context/8`, `keys/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WholePages {
    /// What is cut into pages.
    pub of: Paged,
    /// Positions of a page.
    pub size: usize,
}

/// What is cut into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Paged {
    /// The keys of the calls before.
    Context,
    /// All keys, the call's own among them. Where they fill no page they are seen.
    Keys,
}

impl WholePages {
    /// The keys that are not seen in a call of so many rows, of so many keys: from one on, up to another.
    pub fn lost(self, rows: usize, keys: usize) -> Option<[usize; 2]> {
        let context = keys.checked_sub(rows).filter(|context| *context > 0)?;
        let whole = |keys: usize| keys / self.size.max(1) * self.size.max(1);
        let [first, end] = match self.of {
            Paged::Context => [whole(context), context],
            Paged::Keys if whole(keys) == 0 => return None,
            Paged::Keys => [whole(keys), keys],
        };
        (first < end).then_some([first, end])
    }
}

impl fmt::Display for WholePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.of, self.size)
    }
}

impl FromStr for WholePages {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (of, size) = s.split_once('/').ok_or("expected context or keys, a / and a number")?;
        let of = of.parse().map_err(|error: strum::ParseError| error.to_string())?;
        let size = size.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
        Ok(WholePages { of, size })
    }
}

/// A page of positions that holds the keys and values of another: `4:2=3`, of 4 positions, page 2 those of page 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SharedPage {
    /// Positions of a page.
    pub size: usize,
    /// The page.
    pub page: usize,
    /// The one whose keys and values it holds.
    pub of: usize,
}

impl SharedPage {
    /// The row that is in the place of another, of so many.
    pub fn source(self, row: usize, rows: usize) -> usize {
        let size = self.size.max(1);
        let source = self.of.saturating_mul(size).saturating_add(row % size);
        if row / size == self.page && source < rows { source } else { row }
    }
}

impl fmt::Display for SharedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.size, self.page, self.of)
    }
}

impl FromStr for SharedPage {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected = "expected a size, a : and two pages with a = in between";
        let (size, pages) = s.split_once(':').ok_or(expected)?;
        let (page, of) = pages.split_once('=').ok_or(expected)?;
        let number = |s: &str| s.parse().map_err(|error: std::num::ParseIntError| error.to_string());
        Ok(SharedPage { size: number(size)?, page: number(page)?, of: number(of)? })
    }
}
