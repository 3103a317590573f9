//! What became of a command.

use std::process::ExitCode;

/// What became of a command that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No fault.
    Good,
    /// A fault.
    Fault,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Good => ExitCode::SUCCESS,
            Outcome::Fault => ExitCode::from(1),
        }
    }
}
