//! Options of what is measured: whose sizes, how many tokens, on which device.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fixtures::convert::types::Types;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::timing::Repeats;
use reference::config::Config;
use strum::VariantNames;

use crate::bench::operators::Step;
use crate::failure::Failure;
use crate::session::backend::device;
use crate::session::model::configuration;

/// Whose sizes, and how many tokens.
#[derive(Debug, Clone, Args)]
pub struct Sizes {
    /// Whose sizes: a folder with config.json, such a file, a built-in case, or minimax-m2.7 or minimax-m3; weights are
    /// not looked at.
    #[arg(long, default_value = "minimax-m2.7")]
    pub model: String,
    /// New tokens of a sequence: 1 is decoding, a few the verification of drafts, many a prompt.
    #[arg(long, value_name = "TOKENS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Tokens of the sequence, the new ones among them.
    #[arg(long, value_name = "TOKENS", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..))]
    pub context: u32,
    /// How the weights of layers are stored: in bf16, in fp8 as M2.7 is released (E4M3 in blocks of 128×128 with f32 scales), or in
    /// mxfp8 as M3 is (of 1×32 with powers of two). Embedding, head and router are not quantized.
    #[arg(long, default_value_t = Types::Bf16, value_parser = types())]
    pub weights: Types,
    /// Divide the vocabulary, the experts, the experts chosen and the networks' widths by this, for a quick look; the
    /// figures are those of the smaller model, and say so.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub shrink: u32,
}

/// On which device, and how often work is timed there.
#[derive(Debug, Clone, Args)]
pub struct Timing {
    /// Where: auto (a GPU, or else the emulated device), cuda, cuda:N or emulated.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// On a GPU: times that a graph of the work is replayed.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replays: u32,
    /// On a GPU: replays before these.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub warm_ups: u32,
}

/// Types by their names.
fn types() -> impl TypedValueParser<Value = Types> {
    PossibleValuesParser::new(Types::VARIANTS).map(|name| name.parse().expect("one of the names"))
}

/// Times that the work is in a graph.
const IN_GRAPH: usize = 20;

impl Sizes {
    /// The model's configuration.
    pub fn config(&self) -> Result<Config, Failure> {
        Ok(shrunk(configuration(&self.model)?, self.shrink as usize))
    }

    /// The tokens.
    pub fn step(&self, config: &Config) -> Result<Step, Failure> {
        let step = Step { tokens: self.tokens as usize, context: self.context as usize, weights: self.weights };
        if step.tokens > step.context {
            return Err(Failure::new(format!(
                "--tokens {}: more than the sequence has, --context {}",
                self.tokens, self.context
            ))
            .help("the new tokens are the last ones of the context"));
        }
        if step.context > config.max_position_embeddings {
            let most = config.max_position_embeddings;
            return Err(Failure::new(format!("--context {}: {} has {most} positions", self.context, self.model))
                .help(format!("expected at most {most}")));
        }
        Ok(step)
    }

    /// What is measured, in words.
    pub fn title(&self) -> String {
        let stored = match self.weights {
            Types::Bf16 => String::new(),
            quantized => format!(", weights in {quantized}"),
        };
        let shrunk = match self.shrink {
            1 => String::new(),
            n => format!(", its vocabulary, experts, choices and widths of networks divided by {n}"),
        };
        format!("{}{stored}{shrunk}", self.model)
    }
}

impl Timing {
    /// The device: of the emulated one, the form that counts.
    pub fn open(&self) -> Result<Gpu, Failure> {
        let choice = match device(&self.device)? {
            DeviceChoice::Emulated(Form::Checked) => {
                return Err(Failure::new("--device checked: accesses are checked there, not counted")
                    .help("expected auto, cuda, cuda:N or emulated; `parity check --device checked` looks for races"));
            }
            DeviceChoice::Emulated(_) => DeviceChoice::Emulated(Form::Counting),
            other => other,
        };
        let gpu = Gpu::open(choice)?;
        match gpu.form() {
            Some(Form::Fast) => Ok(Gpu::open(DeviceChoice::Emulated(Form::Counting))?),
            _ => Ok(gpu),
        }
    }

    /// How often a GPU does it.
    pub fn repeats(&self, gpu: &Gpu) -> Result<Repeats, Failure> {
        Ok(Repeats {
            in_graph: IN_GRAPH,
            warm_ups: self.warm_ups as usize,
            replays: self.replays as usize,
            flushed_bytes: 2 * gpu.limits()?.cache_bytes,
        })
    }
}

/// A smaller model of as many layers, heads and channels.
fn shrunk(config: Config, by: usize) -> Config {
    // Widths stay multiples of what kernels read at once, and choices fewer than experts.
    let width = |width: usize| if width == 0 { 0 } else { (width / by).next_multiple_of(64).min(width) };
    let count = |count: usize| (count / by).max(1);
    if by == 1 {
        return config;
    }
    Config {
        vocab_size: width(config.vocab_size),
        num_local_experts: count(config.num_local_experts).max(2),
        num_experts_per_tok: count(config.num_experts_per_tok),
        intermediate_size: width(config.intermediate_size),
        dense_intermediate_size: width(config.dense_intermediate_size),
        shared_intermediate_size: width(config.shared_intermediate_size),
        ..config
    }
}
