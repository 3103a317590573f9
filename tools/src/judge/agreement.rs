//! How a candidate's values stand to those of its twin.

use reference::Storage;
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
    /// The share of bits that agree between the twin and its first run in another order; 0 where there is none.
    #[serde(skip)]
    pub bits_expected: f64,
}

/// How many more values than its twin's other orders of sums make a right candidate may have otherwise.
const RIGHT: f64 = 2.0;

/// By what share more bits have to agree for another precision to count in f32, where the order of sums alone decides last bits: a
/// twentieth of a bit. A site that a profile rounds to f16 costs ten bits, and counts though a hundred others are shown.
pub(super) const OF_SUMS: f64 = 1.0 / 512.0;

/// By what share fewer bits may agree than those of runs in other orders do where these are all that values differ by: half a bit.
/// Libraries add in other orders than are drawn, and have functions of their own. What a coarser type rounds has ten bits fewer, and
/// what is rounded to f32 at another place has, where sums hide nothing, more values that are others.
const OF_ORDERS: f64 = 0.5 / 24.0;

/// The share of values that chance makes equal: of values that are normally σ apart, and s from their neighbours, s / (√(2π) σ) are the
/// same. That is a fifth where σ is 2 s, which in bf16 is about a hundredth of the value: what is further off has fewer.
const BY_CHANCE: f64 = 0.2;

/// So many values tell shares apart by a fortieth: √(p (1 − p) / n).
const MANY: usize = 256;

/// Values that may be others where next to none are predicted.
const FEW: f64 = 2.0;

impl Agreement {
    /// How the values of both sites, or calls, stand to theirs.
    pub(crate) fn with(self, other: Self) -> Self {
        let (one, two) = (self.count as f64, other.count as f64);
        Agreement {
            count: self.count + other.count,
            equal: self.equal + other.equal,
            bits: (self.bits * one + other.bits * two) / (one + two).max(1.0),
            unequal_expected: self.unequal_expected + other.unequal_expected,
            bits_expected: (self.bits_expected * one + other.bits_expected * two) / (one + two).max(1.0),
        }
    }

    /// Whether no more values are not the twin's than are predicted, within three standard deviations of independent ones, and no fewer
    /// bits agree, of activations that are stored in a type.
    pub(crate) fn is_as_predicted(&self, activations: Storage) -> bool {
        let most = self.unequal_expected + 3.0 * self.unequal_expected.sqrt() + FEW;
        (self.count - self.equal) as f64 <= most && self.has_predicted_bits(activations)
    }

    /// Whether no fewer bits agree than are predicted, of values that are stored in a type.
    pub(crate) fn has_predicted_bits(&self, stored: Storage) -> bool {
        let fewer = if stored == Storage::F32 { OF_ORDERS } else { OF_SUMS };
        self.bits + fewer >= self.bits_expected
    }

    /// The share of values that are the twin's.
    pub(crate) fn share(&self) -> f64 {
        self.equal as f64 / self.count.max(1) as f64
    }

    /// The share that a right candidate is expected to have.
    pub(crate) fn expected(&self) -> f64 {
        1.0 - self.unequal_expected / self.count.max(1) as f64
    }

    /// Whether more values are expected to be the twin's than chance makes equal where values are off.
    pub(crate) fn predicts_equal(&self) -> bool {
        self.bits_expected > 0.0 && self.count >= MANY && self.expected() >= BY_CHANCE
    }

    /// Whether as many values as are expected are the twin's, and more than by chance.
    pub(crate) fn has_predicted_equal(&self) -> bool {
        self.share() >= self.expected().max(BY_CHANCE)
    }

    /// Whether as few values are not the twin's as a right candidate may have.
    pub(crate) fn is_right(&self) -> bool {
        let most = RIGHT * (self.unequal_expected + 2.0 * self.unequal_expected.sqrt() + FEW);
        (self.count - self.equal) as f64 <= most
    }
}
