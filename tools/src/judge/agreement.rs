//! How a candidate's values stand to those of its twin.

use serde::{Deserialize, Serialize};

/// How a site's values stand to the twin's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Values.
    pub count: usize,
    /// How many are the twin's, bit for bit.
    pub equal: usize,
    /// The share of an f32's 24 bits that agree, on average: 1 for what is equal.
    pub bits: f64,
    /// How many a right candidate is expected to have that are not.
    pub unequal_expected: f64,
}

/// How many more values than its twin's other orders of sums make a right candidate may have otherwise.
const RIGHT: f64 = 2.0;

impl Agreement {
    /// How the values of both sites, or calls, stand to theirs.
    pub(crate) fn with(self, other: Self) -> Self {
        let (one, two) = (self.count as f64, other.count as f64);
        Agreement {
            count: self.count + other.count,
            equal: self.equal + other.equal,
            bits: (self.bits * one + other.bits * two) / (one + two).max(1.0),
            unequal_expected: self.unequal_expected + other.unequal_expected,
        }
    }

    /// Whether as few values are not the twin's as a right candidate may have.
    pub(crate) fn is_right(&self) -> bool {
        let most = RIGHT * (self.unequal_expected + 2.0 * self.unequal_expected.sqrt() + 2.0);
        (self.count - self.equal) as f64 <= most
    }
}
