//! What ranks add up.

use crate::Tracked;

/// Summands, and their sum as a probe left it.
pub(super) struct Summed<T> {
    /// Of each rank.
    pub(super) parts: Vec<Tracked<T>>,
    /// The sum.
    pub(super) whole: Tracked<T>,
}
