//! The parity program.

use std::process::ExitCode;

use clap::Parser;
use tools::cli::{Cli, Command};
use tools::output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output { quiet: cli.quiet };
    let outcome = match &cli.command {
        Command::Check(command) => command.carry_out(output),
        Command::Run(command) => command.carry_out(output),
        Command::Verify(command) => command.carry_out(output),
        Command::Diff(command) => command.carry_out(output),
        Command::Decode(command) => command.carry_out(output),
        Command::Synth(command) => command.carry_out(output),
        Command::Show(command) => command.carry_out(output),
        Command::Kernels(command) => command.carry_out(output),
        Command::Fixtures(command) => command.carry_out(output),
    };
    match outcome {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            output.fail(failure);
            ExitCode::from(2)
        }
    }
}
