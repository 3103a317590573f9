//! `parity synth`: a seeded synthetic checkpoint.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fixtures::synth::Synthesis;
use reference::Storage;

use super::outcome::Outcome;
use crate::failure::Failure;
use crate::report::output::Output;

/// What is typed.
///
/// Weights are scaled so that activations neither vanish nor explode, the router spreads, and its correction bias
/// changes choices. The same seed gives the same bytes, on any number of cores.
#[derive(Debug, Clone, Args)]
pub struct Synth {
    /// A config.json, or a folder that has one.
    pub config: PathBuf,
    /// The new folder.
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Another seed, other weights.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// What weights are stored in; the router's are f32, as released.
    #[arg(long, value_enum, default_value_t = Type::Bf16)]
    pub dtype: Type,
    /// GiB of a file, at most, if it has more than one tensor.
    #[arg(long, value_name = "GIB", default_value_t = 4.0)]
    pub shard_size: f64,
}

/// What weights are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Type {
    /// The upper half of binary32.
    Bf16,
    /// binary16.
    F16,
    /// binary32.
    F32,
}

const MIB: u64 = 1 << 20;

impl Synth {
    /// Does it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, to the byte below")]
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        if self.shard_size.is_nan() || self.shard_size <= 0.0 {
            let problem = format!("--shard-size {}: expected more than 0 GiB", self.shard_size);
            return Err(Failure::new(problem).help("for instance --shard-size 4"));
        }
        let config = if self.config.is_dir() { self.config.join("config.json") } else { self.config.clone() };
        let text = std::fs::read_to_string(&config).map_err(|error| {
            Failure::new(format!("{}: cannot be read: {error}", config.display())).help("name a model's config.json")
        })?;
        let storage = match self.dtype {
            Type::Bf16 => Storage::Bf16,
            Type::F16 => Storage::F16,
            Type::F32 => Storage::F32,
        };
        let file_size = (self.shard_size * (1u64 << 30) as f64) as u64;
        let synthesis = Synthesis { seed: self.seed, storage, file_size, ..Synthesis::default() };
        let bar = output.progress(0, "writing MiB");
        synthesis.write(&text, &self.out, &|progress| {
            bar.set_length(progress.total / MIB);
            bar.set_position(progress.done / MIB);
        })?;
        bar.finish_and_clear();
        output.say(&format!("{}", self.out.display()));
        Ok(Outcome::Good)
    }
}
