//! How a candidate's values stand to those of its twin.

use serde::Serialize;

/// How a site's values stand to the twin's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// Values.
    pub count: usize,
    /// How many are the twin's, bit for bit.
    pub equal: usize,
    /// How many a right candidate is expected to have that are not.
    pub unequal_expected: f64,
}
