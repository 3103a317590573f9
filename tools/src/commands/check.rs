//! `parity check`: the CUDA path next to the reference.

use clap::Args;
use reference::decode::Decode;
use reference::models::decoder::Decoder;
use reference::ops::sampling::Sampling;
use reference::{RoundingContract, Semantics};

use super::outcome::Outcome;
use crate::commands::options::{Demanding, OnDevice, Part, Prompted, Reading, ReportOptions, ShownOptions, typed};
use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::candidate::Live;
use crate::judge::decoded::judge_decoded;
use crate::judge::floor::MEMBERS;
use crate::judge::lens::Lens;
use crate::judge::replay::Choices;
use crate::judge::verification::Verification;
use crate::report::content::{Conclusion, Header, Report};
use crate::report::output::Output;
use crate::report::pictures::TowerPass;
use crate::report::terminal::print_all;
use crate::session::backend::{device, load_optimized, weights_of_optimized};
use crate::session::decoding::decode_optimized;
use crate::session::model::Model;
use crate::session::prompt::Prompt;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// Folders in the hub's format, or built-in cases. Without any, all built-in cases.
    pub models: Vec<String>,
    #[command(flatten)]
    prompted: Prompted,
    #[command(flatten)]
    shown: ShownOptions,
    /// Tokens to decode after it.
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub decode: usize,
    #[command(flatten)]
    device: OnDevice,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    demanding: Demanding,
    #[command(flatten)]
    files: ReportOptions,
}

impl Check {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.files.begin(output)?;
        let names = if self.models.is_empty() { Model::built_in()? } else { self.models.clone() };
        let mut reports = Vec::with_capacity(names.len());
        for name in &names {
            reports.push(self.judge(&Model::open(name)?, output)?);
        }
        print_all(&reports, output);
        files.write(&reports)?;
        let faulty = reports.iter().any(|report| report.conclusion() == Conclusion::Fail);
        Ok(if faulty { Outcome::Fault } else { Outcome::Good })
    }

    /// The command, without what restricts it.
    fn command(&self, model: &Model) -> String {
        let options = [("--tokens", &self.prompted.tokens), ("--semantics", &self.reading.semantics)];
        format!("parity check {}{}{} --device {}", model.name, typed(&options), self.shown.typed(), self.device.device)
    }

    fn judge(&self, model: &Model, output: Output) -> Result<Report, Failure> {
        let selection = Selection::parse(self.part.layers.as_deref(), &self.part.sites)?;
        let demands = self.demanding.demands()?;
        let semantics = self.reading.of(model)?;
        let prompt = Prompt::find(self.prompted.tokens.as_deref(), model, None)?;
        prompt.check(model.checkpoint.config(), self.decode)?;
        let media = self.shown.shown().find(model, &prompt)?;
        let weights = weights_of_optimized(model);
        let decoder = Decoder::new(model.checkpoint.config(), semantics, &weights)?.seeing(media.as_ref());
        let optimized = load_optimized(model, &semantics, device(&self.device.device)?, output)?;

        let bar = output.progress(self.decode + 1, &format!("running {}", model.name));
        let mut live = Live::default();
        let how = Decode { tokens: self.decode, sampling: Sampling::Greedy, seed: 0, chunk: None };
        let choices =
            decode_optimized(&optimized, (&prompt.tokens, media.as_ref()), &how, Some(&mut live), |_| bar.inc(1))?;
        let decoded: Vec<u32> = choices.iter().map(|choice| choice.token).collect();
        bar.finish_and_clear();

        let contract = RoundingContract::PARITY;
        let read = [&prompt.tokens[..], &decoded[..decoded.len().saturating_sub(1)]].concat();
        let steps = [read];
        let lenses = [Lens::Local, Lens::Layer, Lens::Global];
        let layers = selection.layers(decoder.config().num_hidden_layers);
        let verification = Verification {
            model: &decoder,
            candidate: &live,
            contract,
            steps: &steps,
            prompt: prompt.tokens.len(),
            lenses: &lenses,
            layers,
            keep: None,
        };
        let bar = output.progress(verification.phases(), &format!("checking {}", model.name));
        let found = verification.run(|| bar.inc(1))?;
        bar.finish_and_clear();

        let header = Header {
            model: model.name.clone(),
            size: model.size(),
            candidate: format!("the CUDA path on {}", optimized.gpu().name()),
            contract,
            contract_from: "what the kernels do".into(),
            semantics,
            steps: vec![steps[0].len()],
            shown: TowerPass::of(media.as_ref(), model.checkpoint.config().vision.as_ref()),
            layers: model.checkpoint.config().num_hidden_layers,
            head_dim: model.checkpoint.config().head_dim,
            notes: notes(model, &semantics, prompt.tokens.len(), steps[0].len()),
            command: self.command(model),
        };
        let mut report = Report::of(header, found, &selection, model.checkpoint.config())?;
        report.hold_to(&demands)?;
        if selection.is_all() && self.decode > 0 {
            let bar = output.progress(1 + MEMBERS, "judging the decode");
            let mut chosen = Choices::of(&live, decoder.config(), &[steps[0].len()])?;
            let tokens = (&prompt.tokens[..], &decoded[..]);
            report.decode = Some(judge_decoded(&decoder, tokens, contract, &mut chosen, || bar.inc(1))?);
            bar.finish_and_clear();
        }
        Ok(report)
    }
}

/// The CUDA path has bf16 weights.
fn notes(model: &Model, semantics: &Semantics, prompt: usize, read: usize) -> Vec<String> {
    let mut notes: Vec<String> = model.readings(semantics).into_iter().collect();
    if read > prompt {
        notes.push(format!("positions from {prompt} on were decoded, the others read at once"));
    }
    let wider = model.checkpoint.tensors().any(|tensor| {
        let router = tensor.name.contains("gate.weight") || tensor.name.contains("e_score_correction_bias");
        tensor.dtype != fixtures::Dtype::Bf16 && !router
    });
    if wider {
        notes.push("weights are rounded to bf16 for both sides, but for the router's".into());
    }
    notes
}
