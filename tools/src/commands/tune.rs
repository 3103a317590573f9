//! `parity tune`: the launch parameters of an operator, by the loop of document 003.

use std::path::PathBuf;

use clap::Args;
use fixtures::fingerprint::sha256;
use optimized::kernel::Sources;
use reference::config::Config;
use reference::evolution::THRESHOLD;
use serde_json::json;

use super::options::Reporting;
use super::outcome::Outcome;
use super::sizes::{Sizes, Timing};
use crate::bench::device::OnDevice;
use crate::bench::operators::{Work, all};
use crate::bench::pattern::Pattern;
use crate::failure::Failure;
use crate::report;
use crate::report::output::Output;
use crate::tune::evolve::{Asked, Proof, Subject, begun, evolve};
use crate::tune::history::{History, Identity};
use crate::tune::registers::Registers;
use crate::tune::subject::{Measure, Tuned};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Tune {
    /// The operator, as `parity bench` names it: experts.moe, experts.router, sampling, …
    #[arg(value_name = "WORK")]
    pub work: String,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    timing: Timing,
    /// Rounds, at most; those of a history count.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub rounds: u32,
    /// By how much a candidate must be better to be kept, of the baseline's speed; the document's is 0.01.
    #[arg(long, value_name = "SHARE", default_value_t = THRESHOLD, value_parser = share)]
    pub threshold: f64,
    /// Of the draws among changes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Remember every round in this file, and go on with what it has: a JSON file, whole at any time.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
    /// The folder of libnvrtc.so.13, for registers on the emulated device; else the environment variable `PARITY_NVRTC`, and
    /// the system's folders. Without NVRTC they are stated.
    #[arg(long, value_name = "FOLDER")]
    pub nvrtc: Option<PathBuf>,
    /// Only prove a candidate: NAME=VALUE,… such as STAGES=5; what is not named is as it is.
    #[arg(long, value_name = "NAME=VALUE,…", conflicts_with = "history")]
    pub prove: Option<String>,
    #[command(flatten)]
    reporting: Reporting,
}

impl Tune {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let config = self.sizes.config()?;
        let step = self.sizes.step(&config)?;
        let work = self.named(&config)?;
        let (json, output) = self.reporting.begin(output)?;
        let found = self.history.as_deref().map(History::open).transpose()?.flatten();
        let gpu = self.timing.open()?;
        let device = gpu.name().to_owned();
        let measure = match gpu.form() {
            Some(_) => Measure::Model(Registers::find(self.nvrtc.as_deref())?),
            None => Measure::Time(self.timing.repeats(&gpu)?, self.again()),
        };
        let pattern = Pattern::drawn();
        let on_device = OnDevice::new(gpu, &config, (step, &[work]), &pattern, || {})?;
        let mut tuned = Tuned::new(on_device, (work, &self.work), measure)?;
        if let Some(typed) = &self.prove {
            return prove(&mut tuned, typed, output);
        }
        let of = self.identity(device, &tuned);
        if let (Some(found), Some(path)) = (&found, &self.history) {
            found.require(path, &of)?;
        }
        let asked = Asked { rounds: self.rounds as usize, threshold: self.threshold, seed: self.seed };
        let bar = output.progress(asked.rounds, "tuning");
        let mut history = begun(&mut tuned, asked, of, found)?;
        let keep = |history: &History| self.history.as_deref().map_or(Ok(()), |path| history.write(path));
        keep(&history)?;
        bar.set_position(history.rounds.len() as u64);
        let state = evolve(&mut tuned, asked, &mut history, |history| {
            bar.set_position(history.rounds.len() as u64);
            keep(history)
        })?;
        bar.finish_and_clear();
        output.say(&report::tune::tune(&self.sizes.title(), &history, (&state, tuned.space()), asked.rounds));
        json.write(&json!({
            "schema": 1, "history": history, "best": tuned.space().named(state.evolution.state()), "cost": state.cost,
            "improvement": state.evolution.improvement(),
        }))?;
        Ok(Outcome::Good)
    }

    /// The work of this name, which has to be an operator alone.
    fn named(&self, config: &Config) -> Result<Work, Failure> {
        let alone: Vec<Work> = all(config).into_iter().filter(|work| work.pieces(config).is_empty()).collect();
        let names: Vec<String> = alone.iter().map(|work| work.name(config)).collect();
        let known = alone.iter().zip(&names).find(|(_, name)| **name == self.work);
        known.map(|(work, _)| *work).ok_or_else(|| {
            let consists = all(config).iter().any(|work| work.name(config) == self.work);
            let problem = if consists {
                format!("{}: this consists of operators, which are tuned one by one", self.work)
            } else {
                format!("{}: no operator of this model has such a name", self.work)
            };
            Failure::new(problem).help(format!("expected one of {}", names.join(", ")))
        })
    }

    /// What makes two runs of the loop one.
    fn identity(&self, device: String, tuned: &Tuned) -> Identity {
        let Sizes { model, tokens, context, weights, shrink } = &self.sizes;
        let files: String = Sources::embedded().files().flat_map(|(name, text)| [name, "\n", text, "\n"]).collect();
        let all = [
            ("device", device),
            ("operator", self.work.clone()),
            ("model", model.clone()),
            ("weights", weights.to_string()),
            ("shrink", shrink.to_string()),
            ("tokens", tokens.to_string()),
            ("context", context.to_string()),
            ("version of the kernels", sha256(files.as_bytes())),
            ("measure", tuned.measure()),
            ("threshold", self.threshold.to_string()),
            ("seed", self.seed.to_string()),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What is typed to prove a candidate without a GPU.
    fn again(&self) -> Vec<String> {
        let Sizes { model, tokens, context, weights, shrink } = &self.sizes;
        let numbers = [("--tokens", tokens), ("--context", context), ("--shrink", shrink)];
        let weights = weights.to_string();
        let mut words: Vec<String> =
            ["tune", &self.work, "--device", "emulated", "--model", model, "--weights", &weights]
                .map(str::to_owned)
                .to_vec();
        words.extend(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]));
        words
    }
}

/// Says whether a candidate is right.
fn prove(tuned: &mut Tuned, typed: &str, output: Output) -> Result<Outcome, Failure> {
    if tuned.proves_elsewhere() {
        return Err(Failure::new("--prove: a process that drives a GPU has no checked device")
            .help("expected --device emulated with it"));
    }
    let settings = tuned.space().typed(typed)?;
    let (said, outcome) = match tuned.prove(&settings)? {
        Proof::Right => ("right: the exact twin's bits, and no race".to_owned(), Outcome::Good),
        Proof::Wrong(why) => (format!("wrong: {why}"), Outcome::Fault),
        Proof::Impossible(why) => (format!("impossible: {why}"), Outcome::Fault),
    };
    output.say(&said);
    Ok(outcome)
}

/// A number from 0.
fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share: &f64| *share >= 0.0 && share.is_finite())
        .ok_or("expected a number from 0".to_owned())
}
