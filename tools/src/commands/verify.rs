//! `parity verify`: a dump from any engine next to the reference.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use fixtures::activations::dump::Dump;
use fixtures::activations::rows::Request;
use fixtures::checkpoint::rounded::HeldWeights;
use fixtures::names::sited::Sited;
use reference::Semantics;
use reference::models::decoder::Decoder;

use super::outcome::Outcome;
use crate::commands::options::{Demanding, DumpOptions, Part, ReportOptions};
use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::decoded::judge_decoded;
use crate::judge::floor::MEMBERS;
use crate::judge::lens::Lens;
use crate::judge::replay::Choices;
use crate::judge::verification::Verification;
use crate::report::content::{Conclusion, Header, Report};
use crate::report::output::Output;
use crate::report::pictures::TowerPass;
use crate::report::terminal::print_all;
use crate::session::dumped::{Dumped, open_dump};
use crate::session::model::Model;
use crate::session::precision::Known;

/// What is typed.
#[derive(Debug, Clone, Default, Args)]
pub struct Verify {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// A .safetensors or .npz file, or a folder of those or of .npy files. For a built-in case its own values.
    pub dump: Option<PathBuf>,
    #[command(flatten)]
    given: DumpOptions,
    /// Only these lenses.
    #[arg(long, value_enum)]
    pub lens: Vec<Lens>,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    demanding: Demanding,
    #[command(flatten)]
    files: ReportOptions,
}

impl Verify {
    /// With these lenses, and nothing else typed.
    pub(super) fn under(lens: Vec<Lens>) -> Self {
        Verify { lens, ..Verify::default() }
    }

    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.files.begin(output)?;
        let model = Model::open(&self.model)?;
        let dump = open_dump(self.dump.as_deref(), &model)?;
        let reports = self.judge(&model, dump, output)?;
        print_all(&reports, output);
        files.write(&reports)?;
        let faulty = reports.iter().any(|report| report.conclusion() == Conclusion::Fail);
        Ok(if faulty { Outcome::Fault } else { Outcome::Good })
    }

    /// Puts a dump next to the model's reference, request by request.
    pub(super) fn judge(&self, model: &Model, dump: Dump, output: Output) -> Result<Vec<Report>, Failure> {
        let requests = Dumped::of(dump, &self.given.given(), model)?;
        requests.into_iter().map(|dumped| self.judge_one(model, dumped, output)).collect()
    }

    fn judge_one(&self, model: &Model, dumped: Dumped, output: Output) -> Result<Report, Failure> {
        let selection = Selection::parse(self.part.layers.as_deref(), &self.part.sites)?;
        let demands = self.demanding.demands()?;
        let Dumped { values: dump, request, prompt, steps, known, semantics, media } = dumped;
        let weights = HeldWeights::under(&known.contract, &model.checkpoint);
        let decoder = Decoder::new(model.checkpoint.config(), semantics, &weights)?.seeing(media.as_ref());
        let lenses =
            if self.lens.is_empty() { vec![Lens::Local, Lens::Layer, Lens::Global] } else { self.lens.clone() };
        let layers = selection.layers(decoder.config().num_hidden_layers);
        let verification = Verification {
            model: &decoder,
            candidate: &dump,
            contract: known.contract,
            steps: &steps,
            prompt: prompt.tokens.len(),
            lenses: &lenses,
            layers,
            keep: None,
        };
        let bar = output.progress(verification.phases(), "verifying");
        let found = verification.run(|| bar.inc(1))?;
        bar.finish_and_clear();

        let shown = TowerPass::of(media.as_ref(), model.checkpoint.config().vision.as_ref());
        let header = self.header(model, &dump, &known, semantics, (&steps, shown));
        let mut report = Report::of(header, found, &selection, decoder.config())?;
        report.hold_to(&demands)?;
        if let (number, 2..) = request {
            write!(report.header.model, " request {number}").expect("text takes all");
        }
        let whole = dump.request().is_none_or(|request| request.absent == 0);
        if selection.is_all() && !prompt.decoded.is_empty() && self.lens.is_empty() && whole {
            let bar = output.progress(1 + MEMBERS, "verifying the decode");
            let passes: Vec<usize> = steps.iter().map(Vec::len).collect();
            let mut choices = Choices::of(&dump, decoder.config(), &passes)?;
            let tokens = (&prompt.tokens[..], &prompt.decoded[..]);
            let decoded = judge_decoded(&decoder, tokens, known.contract, &mut choices, || bar.inc(1))?;
            bar.finish_and_clear();
            report.decode = Some(decoded);
        }
        Ok(report)
    }

    fn header(
        &self,
        model: &Model,
        dump: &Sited,
        known: &Known,
        semantics: Semantics,
        (steps, shown): (&[Vec<u32>], Vec<TowerPass>),
    ) -> Header {
        let path = dump.dump().path().display();
        let producer = dump.dump().manifest().and_then(|manifest| manifest.producer.as_ref());
        let producer = producer.map(|producer| format!(", by {}", words(producer))).unwrap_or_default();
        Header {
            model: model.name.clone(),
            size: model.size(),
            candidate: format!("{path}{producer}"),
            contract: known.contract,
            contract_from: known.from.clone(),
            semantics,
            steps: steps.iter().map(Vec::len).collect(),
            shown,
            layers: model.checkpoint.config().num_hidden_layers,
            head_dim: model.checkpoint.config().head_dim,
            notes: model.readings(&semantics).into_iter().chain(notes(dump, known)).collect(),
            command: self.command(),
        }
    }

    /// The command, without what restricts it.
    fn command(&self) -> String {
        let dump = self.dump.as_ref().map(|dump| format!(" {}", dump.display())).unwrap_or_default();
        format!("parity verify {}{dump}{}", self.model, self.given.typed())
    }
}

/// What the reader should know of a dump's names.
fn notes(dump: &Sited, known: &Known) -> Vec<String> {
    let reading = dump.reading();
    let mut notes: Vec<String> = known.coarser.iter().cloned().collect();
    notes.extend(dump.request().and_then(notes_of_rows));
    if !reading.unknown.is_empty() {
        let listed: Vec<String> = reading.unknown.iter().take(5).map(|name| with_closest(dump, name)).collect();
        let more = reading.unknown.len().saturating_sub(listed.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("names that are not known: {}{more}", listed.join(", ")));
    }
    if !dump.rivals().is_empty() {
        notes.push(format!("read as {}'s names; they could be {}'s too", reading.engine, dump.rivals().join("'s or ")));
    }
    notes
}

/// What the reader should know of a request's rows.
fn notes_of_rows(request: &Request) -> Option<String> {
    let (absent, shift) = (request.absent, request.shift);
    if absent > 0 {
        return Some(format!(
            "positions up to {} came from a cache and are not in the dump: attention is not judged, nor are layers as a whole",
            absent - 1
        ));
    }
    (shift > 0)
        .then(|| format!("the candidate counts {shift} slots of padding: its position {shift} is the first token's"))
}

fn with_closest(dump: &Sited, name: &str) -> String {
    dump.closest(name).map_or_else(|| name.to_owned(), |closest| format!("{name} (did you mean {closest}?)"))
}

/// A producer, in words.
fn words(producer: &serde_json::Value) -> String {
    let field = |name: &str| producer.get(name).and_then(serde_json::Value::as_str);
    match (producer.as_str(), field("library"), field("version")) {
        (Some(text), ..) => text.to_owned(),
        (_, Some(library), Some(version)) => format!("{library} {version}"),
        _ => producer.to_string(),
    }
}
