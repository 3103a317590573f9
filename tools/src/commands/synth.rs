//! `parity synth`: a seeded synthetic checkpoint.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fixtures::quantize::config_under;
use fixtures::synth::Synthesis;
use fixtures::synth::modules::announcing;
use fixtures::synth::released::Released;
use reference::Storage;
use reference::config::Config;
use serde_json::Value;

use super::outcome::Outcome;
use super::writing::{file_size, written};
use crate::failure::Failure;
use crate::report::figures::counted;
use crate::report::output::Output;
use crate::session::model::config_text;

/// What is typed.
///
/// Weights are scaled so that activations neither vanish nor explode, the router spreads, and its correction bias
/// changes choices. The same seed gives the same bytes, on any number of cores.
#[derive(Debug, Clone, Args)]
pub struct Synth {
    /// A config.json, or a folder that has one.
    #[arg(required_unless_present = "like", conflicts_with = "like")]
    pub config: Option<PathBuf>,
    /// A released model: its shapes, names and types.
    #[arg(long, value_name = "MODEL", value_parser = released())]
    pub like: Option<Released>,
    /// As many layers, in place of the released model's.
    #[arg(long, value_name = "N", requires = "like", value_parser = clap::value_parser!(u32).range(1..))]
    pub num_layers: Option<u32>,
    /// The new folder.
    #[arg(long, value_name = "FOLDER", required_unless_present = "dry_run")]
    pub out: Option<PathBuf>,
    /// Write nothing; say how many tensors, parameters and bytes there would be.
    #[arg(long)]
    pub dry_run: bool,
    /// Another seed, other weights.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// What weights are stored in; the router's are f32, as released. Without it what the configuration says, else bf16.
    #[arg(long, value_enum)]
    pub dtype: Option<Type>,
    /// Modules of multi-token prediction beside the model, for `decode --speculate`. Each repeats the last layer, and the
    /// layers before say less than in a model without, so that some of what modules predict is right.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=64), hide_default_value = true)]
    pub mtp_modules: u8,
    /// GiB of a file, at most, if it has more than one tensor.
    #[arg(long, value_name = "GIB", default_value_t = 4.0)]
    pub shard_size: f64,
}

/// The released models by their names.
fn released() -> impl TypedValueParser<Value = Released> {
    let names = Released::ALL.map(|released| PossibleValue::new(released.name).help(released.about));
    PossibleValuesParser::new(names).map(|name| Released::named(&name).expect("one of the names"))
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

impl Synth {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let file_size = file_size(self.shard_size)?;
        let (path, text) = self.followed()?;
        let storage = match self.dtype {
            Some(Type::F16) => Storage::F16,
            Some(Type::F32) => Storage::F32,
            Some(Type::Bf16 | Type::Fp8 | Type::Mxfp8) => Storage::Bf16,
            None => stated_in(&text).unwrap_or(Storage::Bf16),
        };
        let text = match self.dtype {
            Some(dtype) => config_under(&text, dtype.scheme()).unwrap_or(text),
            None => text,
        };
        let modules = self.mtp_modules.into();
        let text = if modules > 0 { announcing(&text, modules).unwrap_or(text) } else { text };
        let synthesis = Synthesis { seed: self.seed, storage, file_size, modules, ..Synthesis::default() };
        let Some(out) = self.out.as_ref().filter(|_| !self.dry_run) else {
            output.say(&inventory(&synthesis, &text, path)?);
            return Ok(Outcome::Good);
        };
        written(out, output, |progress| synthesis.write(&text, out, progress))
    }

    /// The `config.json` that is followed, after where it is, or the released model's name.
    fn followed(&self) -> Result<(PathBuf, String), Failure> {
        let Some(config) = &self.config else {
            let like = self.like.expect("one of both is required");
            let config = self.num_layers.map(|layers| like.with_layers(layers as usize));
            return Ok((like.name.into(), format!("{:#}\n", config.unwrap_or_else(|| like.config()))));
        };
        config_text(config)
    }
}

/// What a configuration says that weights are stored in, by the name that it had before transformers 5, or since, of the text's model or
/// all of it.
fn stated_in(text: &str) -> Option<Storage> {
    let config: Value = serde_json::from_str(text).ok()?;
    let places = [Some(&config), config.get("text_config")].into_iter().flatten();
    let mut stated = places.flat_map(|of| ["dtype", "torch_dtype"].map(|name| of.get(name)?.as_str()));
    match stated.find_map(|name| name)?.trim_start_matches("torch.") {
        "float32" => Some(Storage::F32),
        "float16" => Some(Storage::F16),
        _ => None,
    }
}

/// How much would be written.
fn inventory(synthesis: &Synthesis, text: &str, path: PathBuf) -> Result<String, Failure> {
    let config = Config::from_json(text).map_err(|source| fixtures::Error::Config { path, source })?;
    let tensors = synthesis.tensors(&config);
    let bytes: u64 = tensors.iter().map(|tensor| tensor.size() as u64).sum();
    Ok(format!("{}, {} parameters, {bytes} bytes", counted(tensors.len(), "tensor"), synthesis.parameters(&config)))
}
