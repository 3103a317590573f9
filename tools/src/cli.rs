//! The command line.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use reference::Semantics;
use serde::Serialize;

use crate::commands::{check, decode, diagnose, diff, fixtures, kernels, run, show, synth, verify};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Output;
use crate::report::write_json;

/// Proves fast implementations of MiniMax-M2 and M3 right, or names the operator that is wrong.
///
/// A candidate's activations are put next to a reference that computes the documents' equations in f64. Each operator is
/// judged from the candidate's own inputs to it, within an error bound that is derived for each element.
///
/// Exit code 0: no fault. 1: a fault. 2: bad usage, unreadable input, or nothing compared.
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
    /// Name the mistake that makes a dump what it is.
    Diagnose(diagnose::Diagnose),
    /// Compare two dumps, site by site; needs no model.
    Diff(diff::Diff),
    /// Decode on either backend: tokens and margins.
    Decode(decode::Decode),
    /// Write a seeded synthetic checkpoint of any size.
    Synth(synth::Synth),
    /// Show what is in a checkpoint or a dump.
    Show(show::Show),
    /// Compile every kernel for every GPU: registers, spills, shared memory.
    Kernels(kernels::Kernels),
    /// List, verify or regenerate the golden cases.
    Fixtures(fixtures::Fixtures),
}

/// The reading of the documents.
#[derive(Debug, Clone, Default, Args)]
pub struct Reading {
    /// The reading of the documents: `documents` or `released`, then `,field=value` for each point that is read otherwise.
    /// A built-in case has its own; else it is `documents`.
    #[arg(long, value_name = "PRESET[,FIELD=VALUE]…")]
    pub semantics: Option<String>,
}

impl Reading {
    /// The reading that is asked for, or the model's.
    pub fn of(&self, model: &Model) -> Result<Semantics, Failure> {
        self.semantics.as_deref().map_or_else(|| model.semantics(), |asked| Ok(asked.parse()?))
    }
}

/// The prompt.
#[derive(Debug, Clone, Default, Args)]
pub struct Prompted {
    /// The prompt: 1,2,3 or @file.json, a list or an object with `tokens`. Built-in cases have their own.
    #[arg(long, value_name = "TOKENS")]
    pub tokens: Option<String>,
}

/// Which part of the model is looked at.
#[derive(Debug, Clone, Default, Args)]
pub struct Part {
    /// Only these layers: 3, 3..7 (3 to 6), ..7 or 3...
    #[arg(long, value_name = "RANGE")]
    pub layers: Option<String>,
    /// Only sites whose path fits a pattern, such as `layers.*.self_attn.*`. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub sites: Vec<String>,
}

/// Where reports go.
#[derive(Debug, Clone, Default, Args)]
pub struct Reporting {
    /// Write the report as JSON, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<std::path::PathBuf>,
}

impl Reporting {
    /// Writes a result as JSON, if that is asked for.
    pub fn write(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.json.as_ref().map_or(Ok(()), |path| write_json(value, path))
    }
}

/// Where the reports of a comparison go.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportFiles {
    /// As JSON.
    #[command(flatten)]
    pub reporting: Reporting,
    /// Write the report as a page to look at, in one file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<std::path::PathBuf>,
    /// Write the report as `JUnit` XML, as test runners do: a test case a site.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<std::path::PathBuf>,
}

/// The device of the CUDA path.
#[derive(Debug, Clone, Args)]
pub struct OnDevice {
    /// auto takes a GPU if there is one, else the emulated device; cuda or cuda:N a GPU; emulated the emulated device;
    /// checked the same with every load and store checked for races and bounds.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: String,
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output { quiet: cli.quiet };
    let outcome = match &cli.command {
        Command::Check(command) => command.carry_out(output),
        Command::Run(command) => command.carry_out(output),
        Command::Verify(command) => command.carry_out(output),
        Command::Diagnose(command) => command.carry_out(output),
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

/// Options with a value, as they can be typed again.
pub fn typed(options: &[(&str, &Option<String>)]) -> String {
    options.iter().filter_map(|(name, value)| Some(format!(" {name} {}", value.as_ref()?))).collect()
}
