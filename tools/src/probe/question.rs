//! What is asked.

use reference::{RoundingContract, Storage};

use super::function::Kind;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// What the function computes.
    pub kind: Kind,
    /// What its inputs are stored in; [`Storage::Real`] for f64.
    pub storage: Storage,
    /// How many terms its sums have; `None` for as many as suit the kind.
    pub size: Option<usize>,
    /// What is known of the precision; what is found is laid over it. `None` for the plain one in that storage.
    pub precision: Option<RoundingContract>,
}
