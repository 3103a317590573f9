//! `parity run`: one backend's activations, logits and tokens, written to a dump.

use std::path::PathBuf;

use clap::Args;
use fixtures::activations::manifest::{Decode, Manifest};
use fixtures::activations::writer::DumpWriter;
use fixtures::checkpoint::held::HeldWeights;
use reference::RoundingContract;
use reference::decode::Decode as Decoding;
use reference::models::decoder::Decoder;
use reference::ops::sampling::Sampling;
use serde_json::json;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::{OnDevice, Part, Prompted, Reading, ShownOptions};
use crate::failure::Failure;
use crate::report::output::Output;
use crate::session::backend::{Backend, device, load_optimized};
use crate::session::decoding::{decode_optimized, decode_reference};
use crate::session::model::Model;
use crate::session::precision::named;
use crate::session::prompt::Prompt;
use crate::session::recorder::Recorder;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// Which implementation.
    #[arg(long, value_enum, default_value_t = Backend::Reference)]
    pub backend: Backend,
    /// How the reference computes: f64, f32, or a profile's name, such as `eager_bf16` or `fused`, whose roundings it makes.
    #[arg(long, default_value = "f64")]
    pub precision: String,
    #[command(flatten)]
    prompted: Prompted,
    #[command(flatten)]
    shown: ShownOptions,
    /// Tokens to decode greedily after it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub decode: usize,
    /// Write the activations of each decode step, too, as `step.N.…`.
    #[arg(long)]
    pub steps: bool,
    /// Where to: a name that ends in .safetensors or .npz, or a new folder; - for a .safetensors file on standard output.
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    #[command(flatten)]
    device: OnDevice,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: Part,
}

impl Run {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let model = Model::open(&self.model)?;
        let selection = self.part.selection()?;
        let semantics = self.reading.of(&model)?;
        let prompt = Prompt::find(self.prompted.tokens.as_deref(), &model, None)?;
        prompt.check(model.checkpoint.config(), self.decode)?;
        let media = self.shown.shown().find(&model, &prompt)?;
        let contract = match self.backend {
            Backend::Reference => named(&self.precision)?,
            Backend::Optimized => RoundingContract::PARITY,
        };
        let writer = DumpWriter::create(&self.out)?;
        let output = output.beside(writer.takes_standard_output());
        let mut recorder = Recorder::new(writer, selection, contract, model.checkpoint.config(), self.steps);
        let how = Decoding { tokens: self.decode, sampling: Sampling::Greedy, seed: 0, chunk: None };
        let bar = output.progress(self.decode + 1, &format!("running {}", model.name));
        let mut producer =
            json!({ "library": "parity", "version": env!("CARGO_PKG_VERSION"), "backend": self.backend });
        let choices = match self.backend {
            Backend::Reference => {
                let weights = HeldWeights::under(&contract, model.checkpoint.config().norm_weight, &model.checkpoint);
                let decoder = Decoder::new(model.checkpoint.config(), semantics, &weights)?.seeing(media.as_ref());
                decode_reference(&decoder, &self.precision, &prompt.tokens, &how, &mut recorder, |_| bar.inc(1))?
            }
            Backend::Optimized => {
                let optimized = load_optimized(&model, &semantics, device(&self.device.device)?, &mut bars(output))?;
                producer["device"] = optimized.gpu().name().into();
                producer["emulated"] = optimized.gpu().form().is_some().into();
                let read = (&prompt.tokens[..], media.as_ref());
                decode_optimized(&optimized, read, &how, Some(&mut recorder), |_| bar.inc(1))?
            }
        };
        bar.finish_and_clear();
        let tokens: Vec<u32> = choices.iter().map(|choice| choice.token).collect();
        let fed = if self.steps { &tokens[..tokens.len().saturating_sub(1)] } else { &[] };
        let count = recorder.finish(&Manifest {
            model: Some(model.name.clone()),
            tokens: Some([&prompt.tokens[..], fed].concat()),
            semantics: Some(semantics.to_string()),
            precision: Some(contract.to_string()),
            producer: Some(producer),
            decode: (self.decode > 0).then(|| Decode {
                margins: choices.iter().map(|choice| choice.margin).collect(),
                tokens: tokens.clone(),
            }),
            ..Manifest::default()
        })?;
        output.note(&format!("{count} activations written to {}", self.out.display()));
        if self.decode > 0 {
            output.say(&tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        }
        Ok(Outcome::Good)
    }
}
