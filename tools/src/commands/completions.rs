//! `parity completions`: what a shell needs to complete commands, options and their values.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::outcome::Outcome;
use crate::failure::Failure;
use crate::report::output::Output;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Completions {
    /// The shell.
    pub shell: Shell,
}

impl Completions {
    /// Does it, of the whole command line.
    pub fn carry_out(&self, mut whole: Command, output: Output) -> Result<Outcome, Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut whole, "parity", &mut script);
        output.say(&String::from_utf8_lossy(&script));
        Ok(Outcome::Good)
    }
}
