//! The command line.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::github;
use crate::commands::interrupt::remove_unfinished_when_stopped;
use crate::commands::{
    account, bench, check, claims, completions, convert, decode, demo, diagnose, diff, fixtures, kernels, man, merge,
    mistakes, op, prompt, run, show, synth, tune, verify,
};
use crate::report::output::Output;

/// Proves fast implementations of MiniMax-M2 and M3 right, or names the operator that is wrong.
///
/// A candidate's activations are put next to a reference that computes the documents' equations in f64. Each operator is
/// judged from the candidate's own inputs to it, within an error bound that is derived for each element.
///
/// Models, dumps, prompts, images and videos may be URLs: `file://…`, and in a build with `--features remote` `s3://…`,
/// `gs://…` and `https://…`, with the environment's credentials. What is fetched is kept in the folder `PARITY_CACHE`
/// (~/.cache/parity), of at most `PARITY_CACHE_GB` (100).
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
    #[arg(short, long, global = true, display_order = 998)]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// See what parity does: a small model with one known mistake, verified and diagnosed.
    ///
    /// A built-in model is run with the mistake, and what every operator computed is written as a dump, as an engine would.
    /// The dump is verified and diagnosed, and two pages are written. What was seen is told in a few sentences, with what
    /// to type for a model of one's own. It takes a few seconds. The exit code is 0.
    Demo(demo::Demo),
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
    /// List the known mistakes, or tell all that is known of one.
    ///
    /// Of each: what the code does and what is right, what it does to the numbers, how to mend it, a line of code with it and
    /// without, what a dump must have to show it, and in which models it can be made.
    Mistakes(mistakes::Mistakes),
    /// Propose a prompt that reaches every expert, and more blocks of keys than are chosen.
    ///
    /// A short prompt hides mistakes: experts that no token is sent to, blocks of keys that are all chosen, positions that a
    /// wrong rotation hardly turns. The reference is run on tokens that are drawn, and those are kept that reach experts
    /// which are missing, until each is chosen by as many tokens as a gain of 1 % in it takes to show. The same seed gives
    /// the same tokens. What is reached, and what is not and why, is said on standard error.
    Prompt(prompt::Propose),
    /// Compare two dumps, site by site; needs no model.
    Diff(diff::Diff),
    /// Put one operator's output next to the reference: no model, no dump of one.
    ///
    /// A file holds the operator's inputs by their names, and what a kernel made of them; `parity op` lists operators and names.
    /// Every value has a bound that is derived from the inputs, as in `parity verify`. A file without outputs, with `--out`, gives
    /// the reference's own, in f64. Exit code 1 where a value is outside.
    Op(op::Op),
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
    /// Count what a deployment of a model costs, layer by layer: parameters, operations, bytes, cache, memory.
    ///
    /// For a batch of sequences of so many tokens: parameters and bytes of the weights, as the configuration stores
    /// them; operations of the prompts and of a step of decoding; bytes that a step reads, bytes of the cache. A table
    /// of layers, those that are alike in one line, and bars.
    Account(account::Account),
    /// Write a seeded synthetic checkpoint of any size.
    Synth(synth::Synth),
    /// Lay a checkpoint out as an engine loads it, for as many ranks, and back.
    Convert(convert::Convert),
    /// Show what is in a checkpoint or a dump.
    Show(show::Show),
    /// Compile every kernel for every GPU: registers, spills, shared memory.
    Kernels(kernels::Kernels),
    /// Measure the CUDA path: each operator, a layer and a step of decoding, beside what no implementation can do without.
    ///
    /// On a GPU: time under CUDA graphs, with caches cold, and the fraction of the floor, which follows from the bytes that must
    /// move and the operations that must be done. Before that, every instruction that kernels use is run there and on the
    /// emulated device, and must give the same bits; exit code 1 where one does not.
    ///
    /// Without one, the emulated device counts: launches, bytes of global memory, sectors that warps ask for, bank conflicts
    /// of shared memory; nothing of a GPU's time can be said. The reference's own time for the same is measured, too.
    Bench(bench::Bench),
    /// Tune an operator's launch parameters: tiles, stages, warps, threads, by the loop of document 003.
    ///
    /// Each round analyses what takes the most time, plans a change of one parameter, and evaluates it; it is kept if it is better
    /// by more than the threshold, else reverted. A candidate first has to be right: its kernel runs at a small size on the
    /// emulated device, where every load and store is checked for races, in three orders of its threads, and must give the bits
    /// of the reference in f32 in the kernels' order. One that does not is never evaluated, and never kept.
    ///
    /// On a GPU, candidates are timed as by `parity bench`. The emulated device has no time: there a cost model is optimized, of
    /// bytes, sectors, bank conflicts, launches, tiles that are not full, and occupancy, which a GPU may contradict.
    ///
    /// With `--history FILE` the loop goes on where it was stopped, with the same seed as if it had not been. Nothing is changed
    /// in the program: what was found is to be written into `optimized/src/kernel/table.rs`.
    ///
    /// For decoding: `parity tune experts.moe --history moe.json`; for a prompt: `parity tune experts.linear_qkv --tokens 64`.
    /// A name that is not known gets a list. Compiling candidates needs a C++ compiler, which CXX may name. Exit code 0 whether
    /// anything better was found or not; of `--prove`, 1 where the candidate is not right.
    Tune(tune::Tune),
    /// List, verify or regenerate the golden cases.
    Fixtures(fixtures::Fixtures),
    /// Write on standard output what a shell needs to complete commands and options.
    ///
    /// For bash: `parity completions bash > ~/.local/share/bash-completion/completions/parity`. For zsh: into a file `_parity` in a
    /// folder of $fpath. For fish: `parity completions fish > ~/.config/fish/completions/parity.fish`.
    Completions(completions::Completions),
    /// Write the help of every command as manual pages: `man -l DIR/parity-verify.1`.
    Man(man::Man),
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
        Command::Demo(command) => command.carry_out(output),
        Command::Check(command) => command.carry_out(output),
        Command::Run(command) => command.carry_out(output),
        Command::Verify(command) => command.carry_out(output),
        Command::Merge(command) => command.carry_out(output),
        Command::Diagnose(command) => command.carry_out(output),
        Command::Mistakes(command) => command.carry_out(output),
        Command::Prompt(command) => command.carry_out(output),
        Command::Diff(command) => command.carry_out(output),
        Command::Op(command) => command.carry_out(output),
        Command::Decode(command) => command.carry_out(output),
        Command::Claims(command) => command.carry_out(output),
        Command::Account(command) => command.carry_out(output),
        Command::Synth(command) => command.carry_out(output),
        Command::Convert(command) => command.carry_out(output),
        Command::Show(command) => command.carry_out(output),
        Command::Kernels(command) => command.carry_out(output),
        Command::Bench(command) => command.carry_out(output),
        Command::Tune(command) => command.carry_out(output),
        Command::Fixtures(command) => command.carry_out(output),
        Command::Completions(command) => command.carry_out(Cli::command(), output),
        Command::Man(command) => command.carry_out(Cli::command(), output),
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
