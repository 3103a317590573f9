//! `parity merge`: the shards of a verification put together.

use std::path::PathBuf;

use clap::Args;

use super::github;
use super::outcome::Outcome;
use crate::commands::options::ReportOptions;
use crate::failure::Failure;
use crate::report::output::Output;
use crate::report::terminal::print_all;
use crate::session::shard::{ShardFile, merge};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Merge {
    /// The files of all shards, in any order: what `parity verify … --shard I/N --json FILE` wrote.
    #[arg(required = true, value_name = "SHARD.json")]
    pub shards: Vec<PathBuf>,
    #[command(flatten)]
    files: ReportOptions,
}

impl Merge {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.files.begin(output)?;
        let read: Vec<Result<ShardFile, Failure>> = self.shards.iter().map(|path| ShardFile::read(path)).collect();
        Failure::of_all(read.iter().filter_map(|file| file.as_ref().err().cloned()))?;
        let reports = merge(self.shards.iter().cloned().zip(read.into_iter().flatten()).collect())?;
        print_all(&reports, output);
        Failure::of_all([files.write(&reports), github::tell(&reports, output)].into_iter().filter_map(Result::err))?;
        Ok(Outcome::of(&reports))
    }
}
