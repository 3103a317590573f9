//! An operator that can be asked for.

use super::given::Given;
use super::made::Made;
use super::misfit::told;
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
    /// What the reference makes of the inputs, in f64. What breaks a constraint, which comes without advice, is told by the names of
    /// the tensors.
    pub fn compute(&self, given: &Given) -> Result<Vec<Made>, Failure> {
        let misfit = |refused: Failure| match refused.advice() {
            Some(_) => refused,
            None => told(given, &self.signature, &refused),
        };
        (self.compute)(given).map_err(misfit)
    }
}
