//! `parity diff`: two dumps, site by site.

use std::path::PathBuf;

use clap::Args;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::{Part, TableOptions};
use crate::compare::difference::Difference;
use crate::failure::Failure;
use crate::report::differences::print_difference;
use crate::report::output::Output;
use crate::report::rows::of_difference;
use crate::session::diff::{diff, opened};

/// What is typed.
///
/// The figures are for reading: no similarity proves anything, `parity verify` does. Exit code 1 where shapes differ,
/// where one dump has NaN or Inf and the other has not, or where the limit that was given is passed.
#[derive(Debug, Clone, Args)]
pub struct Diff {
    /// A .safetensors, .npz, .npy, .pt, .pkl or .json file, or a folder of those but JSON.
    pub a: PathBuf,
    /// Another one, which relative figures refer to.
    pub b: PathBuf,
    /// The model of both, where their engines name or group values differently: sites are compared then, not names.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// A map from an engine's names to sites, beside those that ship; needs --model.
    #[arg(long, value_name = "FILE", requires = "model")]
    pub names: Option<PathBuf>,
    /// Exit with 1 where RMS(a − b) > LIMIT · RMS(b), too; 0 demands that all be equal.
    #[arg(long, value_name = "LIMIT")]
    pub limit: Option<f64>,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    table: TableOptions,
}

impl Diff {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.table.begin(output)?;
        if self.limit.is_some_and(|limit| limit.is_nan() || limit < 0.0) {
            return Err(Failure::new("--limit: expected 0 or more").help("for instance --limit 1e-3"));
        }
        let difference = self.compare(output)?;
        print_difference(&difference, output);
        files.write_table(&difference, || of_difference(&difference))?;
        let passed = |pair: &crate::compare::difference::Pair| {
            let near = |limit| pair.relative().is_some_and(|relative| relative <= limit);
            pair.fault().is_none() && self.limit.is_none_or(near)
        };
        Ok(if difference.pairs.iter().all(passed) { Outcome::Good } else { Outcome::Fault })
    }

    fn compare(&self, output: Output) -> Result<Difference, Failure> {
        let dumps = opened([&self.a, &self.b], self.model.as_deref())?;
        let of = self.model.as_deref().map(|model| (model, self.names.as_deref()));
        diff(dumps, of, &self.part.selection()?, &mut bars(output))
    }
}
