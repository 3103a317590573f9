//! Ways to weigh keys that are not attention's.

use std::ops::Range;

/// Keys of a split that is put together with others.
const SPLITS: [usize; 6] = [8, 16, 32, 64, 128, 256];

/// Keys of zeros that are seen beside the others.
const ZEROS: Range<usize> = 1..5;

/// How a token weighs keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// All but one.
    Without(usize),
    /// One whose key and value are zeros.
    Zeroed(usize),
    /// One that comes later, too.
    Ahead(usize),
    /// From one on.
    From(usize),
    /// Those before one.
    Before(usize),
    /// With so many of zeros.
    Zeros(usize),
    /// Means of splits of so many, put together by their largest scores alone.
    Unsummed(usize),
}

impl Way {
    /// Those that a token of many keys may have.
    pub(super) fn all(row: usize, keys: usize) -> Vec<Way> {
        let without = (0..=row).filter(|_| row > 0).flat_map(|key| [Way::Without(key), Way::Zeroed(key)]);
        let (from, before) = ((1..=row).map(Way::From), (1..=row).map(Way::Before));
        let ahead = (row + 1..keys).map(Way::Ahead);
        let splits = SPLITS.into_iter().filter(|size| *size <= row).map(Way::Unsummed);
        without.chain(from).chain(before).chain(ahead).chain(ZEROS.map(Way::Zeros)).chain(splits).collect()
    }
}
