//! Errors: a contract violation names operator, label, quantity, value and expectation.

use std::fmt::Display;

/// A broken constraint of an operator or of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label}: {quantity} = {value}, expected {expected}")]
pub struct ContractError {
    /// The operator and the label of the constraint in its header, such as `rms_norm C2`.
    pub label: &'static str,
    /// What was looked at.
    pub quantity: String,
    /// What it was.
    pub value: String,
    /// What it should have been.
    pub expected: String,
}

/// Ok if the constraint holds.
pub fn require(
    holds: bool,
    label: &'static str,
    quantity: &str,
    value: impl Display,
    expected: impl Display,
) -> Result<(), ContractError> {
    if holds {
        return Ok(());
    }
    Err(ContractError { label, quantity: quantity.into(), value: value.to_string(), expected: expected.to_string() })
}

/// A word that means nothing where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} = {found:?}, expected {expected}")]
pub struct ParseError {
    /// What the word should have named.
    pub what: String,
    /// The word.
    pub found: String,
    /// What it could have been.
    pub expected: String,
}

impl ParseError {
    /// `what` was `found`, which is none of `expected`.
    pub fn new(what: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        ParseError { what: what.into(), found: found.into(), expected: expected.into() }
    }
}

/// A weight that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{tensor}: {problem}")]
pub struct WeightError {
    /// The tensor's name where it is kept.
    pub tensor: String,
    /// What was expected and what was found.
    pub problem: String,
    /// What to do, where that is not to mend the checkpoint.
    pub help: Option<String>,
}

/// Why a model could not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A constraint of an operator or of the model is broken.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// A weight cannot be had.
    #[error(transparent)]
    Weight(#[from] WeightError),
    /// The run's probe looks at nothing that comes later.
    #[error("the run has ended where its probe has seen all that it looks at")]
    Ended,
}
