//! What became of a command.

use std::process::ExitCode;

use crate::report::content::{Conclusion, Report};

/// What became of a command that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No fault.
    Good,
    /// A fault.
    Fault,
}

impl Outcome {
    /// Of reports: a fault, if one of them fails.
    pub(super) fn of(reports: &[Report]) -> Self {
        let faulty = reports.iter().any(|report| report.conclusion() == Conclusion::Fail);
        if faulty { Outcome::Fault } else { Outcome::Good }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Good => ExitCode::SUCCESS,
            Outcome::Fault => ExitCode::from(1),
        }
    }
}
