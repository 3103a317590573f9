//! `parity synth`: a seeded synthetic checkpoint.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fixtures::synth::Synthesis;
use reference::Storage;
use reference::config::Quantization;
use serde_json::Value;

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
    /// What weights are stored in; the router's are f32, as released. Without it what the configuration says, else bf16.
    #[arg(long, value_enum)]
    pub dtype: Option<Type>,
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
    /// E4M3 in blocks of 128×128 with f32 scales, as M2.7 is released: the bf16 weights of the same seed, quantized.
    Fp8,
    /// E4M3 in blocks of 1×32 with powers of two for scales, as M3 is released.
    Mxfp8,
}

impl Type {
    /// The scheme's name, if weights are quantized.
    fn scheme(self) -> Option<&'static str> {
        match self {
            Type::Fp8 => Some("fp8"),
            Type::Mxfp8 => Some("mxfp8"),
            Type::Bf16 | Type::F16 | Type::F32 => None,
        }
    }
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
            Some(Type::F16) => Storage::F16,
            Some(Type::F32) => Storage::F32,
            Some(Type::Bf16 | Type::Fp8 | Type::Mxfp8) | None => Storage::Bf16,
        };
        let text = match self.dtype {
            Some(dtype) => quantized(&text, dtype.scheme()).unwrap_or(text),
            None => text,
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

/// A `config.json` under another scheme, or without any; `None` if it is under this one already, or none that can be read.
fn quantized(text: &str, scheme: Option<&str>) -> Option<String> {
    let mut config: Value = serde_json::from_str(text).ok()?;
    let fields = config.as_object_mut()?;
    let method = fields.get("quantization_config").and_then(|how| how.get("quant_method")).and_then(Value::as_str);
    if method == scheme {
        return None;
    }
    match scheme.and_then(Quantization::released) {
        Some(released) => fields.insert("quantization_config".into(), released.to_json()),
        None => fields.remove("quantization_config"),
    };
    Some(format!("{config:#}\n"))
}
