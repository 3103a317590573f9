//! An operator that can be asked for.

use super::given::Given;
use super::made::Made;
use super::signature::Signature;
use crate::failure::Failure;

/// An operator: what it is called, reads and makes, and how the reference computes it.
#[derive(Debug)]
pub struct Operator {
    /// In words.
    pub signature: Signature,
    pub(super) compute: fn(&Given) -> Result<Vec<Made>, Failure>,
}

impl Operator {
    /// What the reference makes of the inputs, in f64.
    pub fn compute(&self, given: &Given) -> Result<Vec<Made>, Failure> {
        (self.compute)(given)
    }
}
