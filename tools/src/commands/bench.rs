//! `parity bench`: how well the CUDA path does on a device.

use std::path::PathBuf;

use clap::Args;
use fixtures::convert::types::Types;
use optimized::device::Gpu;
use serde_json::json;

use super::outcome::Outcome;
use super::sizes::{Sizes, Timing};
use crate::bench::floor::Rates;
use crate::bench::instructions::{Handed, Instructions, compared};
use crate::bench::measuring::{Asked, measured, steps};
use crate::bench::operators::chosen;
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report;
use crate::report::json::JsonFile;
use crate::report::output::Output;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// What to measure: names such as `experts.moe`, or patterns such as '*.attention'; without it, all of a step of
    /// decoding: each operator, a layer of each kind, and a step with one of each. A name that is not known gets a list.
    #[arg(value_name = "WORK")]
    pub works: Vec<String>,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    timing: Timing,
    /// The memory's rate for floors, in TB/s; else a copy's, measured on a GPU, and an H200's 4.3.
    #[arg(long, value_name = "TB/s", value_parser = rate)]
    pub bandwidth: Option<f64>,
    /// The tensor cores' rate on bf16 for floors, in TFLOP/s; else 0.8 of a GPU's peak, and an H200's 790.
    #[arg(long, value_name = "TFLOP/s", value_parser = rate)]
    pub tensor: Option<f64>,
    /// Leave out the reference's own times, which are of weights in bf16.
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

impl Bench {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        if let Some(path) = &self.instructions {
            let file = JsonFile::begin(Some(path))?;
            let gpu = self.timing.open()?;
            file.write(&Handed::of(&gpu)?)?;
            return Ok(Outcome::Good);
        }
        let config = self.sizes.config()?;
        let step = self.sizes.step(&config)?;
        let works = chosen(&config, &self.works)?;
        let (json, output) = self.reporting.begin(output)?;
        let gpu = self.timing.open()?;
        let instructions = if self.no_instructions { None } else { Some(compared(&gpu)?) };
        let asked = Asked {
            config,
            step,
            works,
            timing: if gpu.form().is_none() { Some(self.timing.repeats(&gpu)?) } else { None },
            rates: self.rates(&gpu)?,
            times_reference: !self.no_reference && step.weights == Types::Bf16,
        };
        let bar = output.progress(steps(&asked), "measuring");
        let bench = measured(gpu, &asked, || bar.inc(1))?;
        bar.finish_and_clear();
        output.say(&report::bench::bench(&self.sizes.title(), &bench, instructions.as_ref()));
        json.write(&json!({
            "schema": 1,
            "model": self.sizes.model,
            "weights": self.sizes.weights.to_string(),
            "shrink": self.sizes.shrink,
            "instructions": instructions,
            "bench": bench,
        }))?;
        let agree = instructions.as_ref().is_none_or(Instructions::agree);
        Ok(if agree { Outcome::Good } else { Outcome::Fault })
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
}

/// A rate above 0.
fn rate(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite()).ok_or("expected a number above 0".to_owned())
}
