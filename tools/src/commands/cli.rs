//! The command line.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::github;
use crate::commands::interrupt::remove_unfinished_when_stopped;
use crate::commands::{
    check, claims, decode, diagnose, diff, fixtures, kernels, merge, prompt, run, show, synth, verify,
};
use crate::report::output::Output;

/// Proves fast implementations of MiniMax-M2 and M3 right, or names the operator that is wrong.
///
/// A candidate's activations are put next to a reference that computes the documents' equations in f64. Each operator is
/// judged from the candidate's own inputs to it, within an error bound that is derived for each element.
///
/// Exit code 0: no fault. 1: a fault. 2: bad usage, unreadable input, or nothing compared.
///
/// On GitHub Actions, `check`, `verify` and `merge` make faults errors and what is suspicious warnings beside the commit,
/// and append the verdict to the step's summary.
#[derive(Debug, Parser)]
#[command(name = "parity", bin_name = "parity", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Only results: no progress, no notes.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put the CUDA path next to the reference: all lenses and the full decode.
    Check(check::Check),
    /// Run one backend and write its activations, logits and tokens.
    Run(run::Run),
    /// Put a dump from any engine next to the reference.
    Verify(verify::Verify),
    /// Put the shards of a verification together: the report that a single command makes.
    ///
    /// Every shard must be there, once, and all must be of one verification: of the same version of parity, model, dump, prompt
    /// and options. The exit code is that of `parity verify`.
    Merge(merge::Merge),
    /// Name the mistake that makes a dump what it is.
    Diagnose(diagnose::Diagnose),
    /// Propose a prompt that reaches every expert, and more blocks of keys than are chosen.
    ///
    /// A short prompt hides mistakes: experts that no token is sent to, blocks of keys that are all chosen, positions that a
    /// wrong rotation hardly turns. The reference is run on tokens that are drawn, and those are kept that reach experts
    /// which are missing, until each is chosen by as many tokens as a gain of 1 % in it takes to show. The same seed gives
    /// the same tokens. What is reached, and what is not and why, is said on standard error.
    Prompt(prompt::Propose),
    /// Compare two dumps, site by site; needs no model.
    Diff(diff::Diff),
    /// Decode on either backend: tokens and margins.
    Decode(decode::Decode),
    /// Recompute the documents' numbers, or a model's: parameters, operations, cache.
    ///
    /// Without MODEL: every number in the documents that follows from hyperparameters, as it is stated and as it is when
    /// it is computed again from the released configurations. It holds if it reads as stated at as many digits, is close if
    /// it is within 1 %, and fails else, with the reason.
    ///
    /// With MODEL: the same quantities of that model, for who is to deploy it. Parameters in all and of a token, bytes of
    /// weights and cache, operations of a token in prefill and decoding.
    ///
    /// GB are 10⁹ bytes, GiB 2³⁰, B 10⁹ parameters; a multiply-add is two operations. Exit code 0 whether claims hold or not.
    Claims(claims::Claims),
    /// Write a seeded synthetic checkpoint of any size.
    Synth(synth::Synth),
    /// Show what is in a checkpoint or a dump.
    Show(show::Show),
    /// Compile every kernel for every GPU: registers, spills, shared memory.
    Kernels(kernels::Kernels),
    /// List, verify or regenerate the golden cases.
    Fixtures(fixtures::Fixtures),
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return tell(&told),
    };
    let output = Output { quiet: cli.quiet, aside: false };
    if let Err(failure) = remove_unfinished_when_stopped() {
        output.fail(failure);
        return ExitCode::from(2);
    }
    let outcome = match &cli.command {
        Command::Check(command) => command.carry_out(output),
        Command::Run(command) => command.carry_out(output),
        Command::Verify(command) => command.carry_out(output),
        Command::Merge(command) => command.carry_out(output),
        Command::Diagnose(command) => command.carry_out(output),
        Command::Prompt(command) => command.carry_out(output),
        Command::Diff(command) => command.carry_out(output),
        Command::Decode(command) => command.carry_out(output),
        Command::Claims(command) => command.carry_out(output),
        Command::Synth(command) => command.carry_out(output),
        Command::Show(command) => command.carry_out(output),
        Command::Kernels(command) => command.carry_out(output),
        Command::Fixtures(command) => command.carry_out(output),
    };
    match outcome.and_then(|outcome| output.finish().map(|()| outcome)) {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            github::tell_failure(&failure);
            output.fail(failure);
            ExitCode::from(2)
        }
    }
}

/// Prints help, the version, or what is wrong with the command line.
fn tell(told: &clap::Error) -> ExitCode {
    let printed = told.print().and_then(|()| io::stdout().flush());
    let is_lost = printed.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
    ExitCode::from(if is_lost || told.use_stderr() { 2 } else { 0 })
}
