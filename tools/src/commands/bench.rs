//! `parity bench`: how well the CUDA path does on a device.

use std::path::PathBuf;

use clap::Args;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::timing::Repeats;
use reference::config::Config;
use serde_json::json;

use super::outcome::Outcome;
use crate::bench::floor::Rates;
use crate::bench::instructions::{Handed, Instructions, compared};
use crate::bench::measuring::{Asked, measured, steps};
use crate::bench::operators::{Step, chosen};
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report;
use crate::report::json::JsonFile;
use crate::report::output::Output;
use crate::session::backend::device;
use crate::session::model::configuration;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// What to measure: names such as `experts.moe`, or patterns such as '*.attention'; without it, all of a step of
    /// decoding: each operator, a layer of each kind, and a step with one of each. A name that is not known gets a list.
    #[arg(value_name = "WORK")]
    pub works: Vec<String>,
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
    /// Divide the vocabulary, the experts, the experts chosen and the networks' widths by this, for a quick look; the
    /// figures are those of the smaller model, and say so.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub shrink: u32,
    /// Where: auto (a GPU, or else the emulated device), cuda, cuda:N or emulated.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// On a GPU: times that a graph of the work is replayed.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub replays: u32,
    /// On a GPU: replays before these.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub warm_ups: u32,
    /// The memory's rate for floors, in TB/s; else a copy's, measured on a GPU, and an H200's 4.3.
    #[arg(long, value_name = "TB/s", value_parser = rate)]
    pub bandwidth: Option<f64>,
    /// The tensor cores' rate on bf16 for floors, in TFLOP/s; else 0.8 of a GPU's peak, and an H200's 790.
    #[arg(long, value_name = "TFLOP/s", value_parser = rate)]
    pub tensor: Option<f64>,
    /// Leave out the reference's own times.
    #[arg(long)]
    pub no_reference: bool,
    /// Leave out the comparison of instructions.
    #[arg(long)]
    pub no_instructions: bool,
    /// Only run the instructions, and write as JSON what they gave, bit by bit; to - for standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["works", "no_instructions", "json"])]
    pub instructions: Option<PathBuf>,
    #[command(flatten)]
    reporting: Reporting,
}

/// Bytes that are copied to measure a GPU's memory.
const COPIED: usize = 1 << 30;
/// Times that the work is in a graph.
const IN_GRAPH: usize = 20;

impl Bench {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        if let Some(path) = &self.instructions {
            let file = JsonFile::begin(Some(path))?;
            let gpu = self.open()?;
            file.write(&Handed::of(&gpu)?)?;
            return Ok(Outcome::Good);
        }
        let config = shrunk(configuration(&self.model)?, self.shrink as usize);
        let step = self.step(&config)?;
        let works = chosen(&config, &self.works)?;
        let (json, output) = self.reporting.begin(output)?;
        let gpu = self.open()?;
        let instructions = if self.no_instructions { None } else { Some(compared(&gpu)?) };
        let asked = Asked {
            config,
            step,
            works,
            timing: if gpu.form().is_none() { Some(self.repeats(&gpu)?) } else { None },
            rates: self.rates(&gpu)?,
            times_reference: !self.no_reference,
        };
        let bar = output.progress(steps(&asked), "measuring");
        let bench = measured(gpu, &asked, || bar.inc(1))?;
        bar.finish_and_clear();
        output.say(&report::bench::bench(&self.title(), &bench, instructions.as_ref()));
        json.write(&json!({
            "schema": 1, "model": self.model, "shrink": self.shrink, "instructions": instructions, "bench": bench,
        }))?;
        let agree = instructions.as_ref().is_none_or(Instructions::agree);
        Ok(if agree { Outcome::Good } else { Outcome::Fault })
    }

    /// The device: of the emulated one, the form that counts.
    fn open(&self) -> Result<Gpu, Failure> {
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

    fn step(&self, config: &Config) -> Result<Step, Failure> {
        let step = Step { tokens: self.tokens as usize, context: self.context as usize };
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

    fn repeats(&self, gpu: &Gpu) -> Result<Repeats, Failure> {
        Ok(Repeats {
            in_graph: IN_GRAPH,
            warm_ups: self.warm_ups as usize,
            replays: self.replays as usize,
            flushed_bytes: 2 * gpu.limits()?.cache_bytes,
        })
    }

    fn rates(&self, gpu: &Gpu) -> Result<Rates, Failure> {
        let [bandwidth, tensor] = [self.bandwidth, self.tensor].map(|rate| rate.map(|rate| 1e12 * rate));
        let rates = if gpu.form().is_some() {
            Rates::H200
        } else {
            let limits = gpu.limits()?;
            let measured = bandwidth.map_or_else(|| gpu.copy_rate(COPIED), Ok)?;
            let (major, minor) = limits.capability;
            match (Rates::of(&limits, measured), tensor) {
                (Some(rates), _) => rates,
                (None, Some(tensor)) => Rates { bandwidth: measured, tensor, scalar: Rates::H200.scalar },
                (None, None) => {
                    let problem =
                        format!("compute capability {major}.{minor}: the rate of its tensor cores is not known");
                    return Err(Failure::new(problem).help("give it: --tensor TFLOP/s"));
                }
            }
        };
        let bandwidth = bandwidth.unwrap_or(rates.bandwidth);
        Ok(Rates { bandwidth, tensor: tensor.unwrap_or(rates.tensor), ..rates })
    }

    /// What is measured, in words.
    fn title(&self) -> String {
        match self.shrink {
            1 => self.model.clone(),
            n => format!("{}, its vocabulary, experts, choices and widths of networks divided by {n}", self.model),
        }
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

/// A rate above 0.
fn rate(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite()).ok_or("expected a number above 0".to_owned())
}
