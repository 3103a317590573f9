//! `parity decode`: tokens and margins, on either backend.

use std::fmt::Write;

use clap::Args;
use reference::decode::Decode as Decoding;
use reference::ops::sampling::{Choice, Random, Sampling};
use serde_json::json;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::{OnDevice, Prompted, Reading, Reporting, ShownOptions};
use crate::failure::Failure;
use crate::report::json::JsonFile;
use crate::report::output::Output;
use crate::report::speculation;
use crate::session::backend::Backend;
use crate::session::model::Model;
use crate::session::run::{Task, run};
use crate::session::speculating::{Speculated, speculating};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Decode {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// Which implementation.
    #[arg(long, value_enum, default_value_t = Backend::Reference)]
    pub backend: Backend,
    /// How the reference computes: f64, f32, or a profile's name.
    #[arg(long, default_value = "f64")]
    pub precision: String,
    #[command(flatten)]
    prompted: Prompted,
    #[command(flatten)]
    shown: ShownOptions,
    /// Tokens to make.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 24)]
    pub count: usize,
    /// Draw tokens from softmax(logits / τ) instead of taking the largest.
    #[arg(long, value_name = "τ")]
    pub temperature: Option<f64>,
    /// Draw among the k largest only.
    #[arg(long, value_name = "K", requires = "temperature")]
    pub top_k: Option<usize>,
    /// Draw among the fewest that together have this probability.
    #[arg(long, value_name = "P", requires = "temperature")]
    pub top_p: Option<f64>,
    /// Of the draws.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Prompt tokens in one forward pass; all, if not given.
    #[arg(long, value_name = "N")]
    pub chunk: Option<std::num::NonZeroUsize>,
    /// Draft N tokens at a time with the model's modules of multi-token prediction, and verify them in one pass.
    ///
    /// The tokens are those of plain decoding by the same backend, which is done, too, and compared: greedily they must be the
    /// same; drawn ones have the same distribution. Told is how many drafts were accepted in each place. Modules that predict
    /// one draft each (M2's, of document 000) allow as many as there are; M3's, of vLLM, are used again and again. No released
    /// checkpoint has modules: for a built-in case they are made, each the model's last layer on the embedding of the last
    /// token, which is seldom right; `parity synth CONFIG --mtp-modules 3 --out MODEL` makes a model of which about half of the
    /// drafts are.
    #[arg(long, value_name = "N", conflicts_with = "chunk")]
    pub speculate: Option<std::num::NonZeroUsize>,
    #[command(flatten)]
    device: OnDevice,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    reporting: Reporting,
}

impl Decode {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, output) = self.reporting.begin(output)?;
        let model = Model::open(&self.model)?;
        let how = Decoding {
            tokens: self.count,
            sampling: self.sampling(),
            seed: self.seed,
            chunk: self.chunk.map(std::num::NonZeroUsize::get),
        };
        let task = Task {
            computing: self.backend.computing(&self.precision, &self.device.device)?,
            tokens: self.prompted.tokens.clone(),
            shown: self.shown.shown(),
            semantics: self.reading.of(&model)?,
            how,
        };
        if let Some(drafts) = self.speculate {
            let made = speculating(&model, &task, drafts.get(), &mut bars(output))?;
            return self.tell(&made, output, json);
        }
        let made = run(&model, &task, &mut bars(output))?;
        output.say(&table(&made.choices));
        let decode = json!({ "tokens": made.tokens(), "margins": made.margins() });
        json.write(&json!({ "schema": 1, "tokens": made.prompt, "decode": decode }))?;
        Ok(Outcome::Good)
    }

    /// What came of drafts. Greedily, another token than plain decoding's is a fault.
    fn tell(&self, made: &Speculated, output: Output, json: JsonFile) -> Result<Outcome, Failure> {
        let Speculated { plain, choices, acceptance, are_its_own } = made;
        if !are_its_own {
            output.note("the modules of multi-token prediction were made for this case: its checkpoint has none");
        }
        output.say(&table(choices));
        let is_greedy = self.sampling() == Sampling::Greedy;
        if is_greedy {
            output.say(&speculation::beside_plain(choices, &plain.choices));
        }
        output.say(&speculation::accepted(acceptance));
        let is_equal = plain.choices.iter().map(|choice| choice.token).eq(choices.iter().map(|choice| choice.token));
        let tokens: Vec<u32> = choices.iter().map(|choice| choice.token).collect();
        let margins: Vec<f64> = choices.iter().map(|choice| choice.margin).collect();
        json.write(&json!({
            "schema": 1,
            "tokens": plain.prompt,
            "decode": { "tokens": tokens, "margins": margins },
            "speculation": {
                "plain": plain.tokens(),
                "modules": if *are_its_own { "checkpoint" } else { "made" },
                "rounds": acceptance.rounds,
                "drafted": acceptance.drafted,
                "accepted": acceptance.accepted,
            },
        }))?;
        Ok(if is_greedy && !is_equal { Outcome::Fault } else { Outcome::Good })
    }

    fn sampling(&self) -> Sampling {
        self.temperature.map_or(Sampling::Greedy, |temperature| {
            Sampling::Random(Random { temperature, top_k: self.top_k, top_p: self.top_p.unwrap_or(1.0) })
        })
    }
}

/// Position, token and margin, a line each.
fn table(choices: &[Choice]) -> String {
    let mut text = format!("{:>8} {:>8} {:>12}\n", "position", "token", "margin");
    for (position, choice) in choices.iter().enumerate() {
        let _ = writeln!(text, "{position:>8} {:>8} {:>12.6}", choice.token, choice.margin);
    }
    text
}
