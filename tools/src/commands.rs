//! The subcommands, a file each: what is typed, and what is done.

pub mod check;
pub mod decode;
pub mod diagnose;
pub mod diff;
pub mod fixtures;
pub mod kernels;
pub mod run;
pub mod show;
pub mod synth;
pub mod verify;

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
