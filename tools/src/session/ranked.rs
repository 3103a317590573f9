//! A group of ranks that runs a model, simulated or on devices, each rank recorded in a folder of its own.

use std::path::{Path, PathBuf};

use fixtures::Error;
use fixtures::activations::manifest::{Decode as Decoded, Manifest};
use fixtures::activations::writer::DumpWriter;
use fixtures::checkpoint::held::HeldWeights;
use fixtures::whole::WholeFolder;
use ndarray::{Array2, ArrayView2};
use optimized::device::DeviceChoice;
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::decode::{Decode, LanguageModel, decode};
use reference::models::group::Group;
use reference::ops::sampling::Choice;
use reference::probe::Probe;
use reference::ranks::Ranks;
use reference::ranks::weights::RankWeights;
use reference::run::Run;
use reference::{Real, RoundingContract, Semantics, Site, Tracked};
use serde_json::{Value, json};

use super::backend::{Computing, load_ranks, sharing};
use super::decoding::decode_optimized;
use super::model::Model;
use super::pixels::Shown;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use super::recorder::Recorder;
use super::run::Made;
use crate::compare::selection::Selection;
use crate::failure::Failure;

/// What a group runs.
#[derive(Debug, Clone)]
pub struct RankedTask {
    /// Ranks.
    pub count: usize,
    /// What computes, and how each of them rounds.
    pub computing: Computing,
    /// The prompt, as `--tokens` has it; a built-in case's own, if not given.
    pub tokens: Option<String>,
    /// What the prompt shows: a group runs the text model alone.
    pub shown: Shown,
    /// The reading of the documents.
    pub semantics: Semantics,
    /// Tokens to make after the prompt, and how.
    pub how: Decode,
    /// Sites that are wanted.
    pub selection: Selection,
    /// Whether every decode step's are wanted, not the prompt's alone.
    pub steps: bool,
}

impl RankedTask {
    /// Runs it, and writes a folder with one for each rank: `rank-0`, `rank-1`, …
    pub fn record(&self, model: &Model, out: &Path, watch: &mut Watcher<'_>) -> Result<Made, Failure> {
        let config = model.checkpoint.config();
        let ranks = sharing(config, self.count)?;
        let prompt = Prompt::find(self.tokens.as_deref(), model, None)?;
        prompt.check(config, self.how.tokens)?;
        if self.shown.find(model, &prompt)?.is_some() {
            return Err(Failure::new(format!("--tp {}: the prompt shows images or videos", self.count))
                .help("a group of ranks runs the text model alone: leave --tp out, or give a prompt of text"));
        }
        let prompt = prompt.tokens;
        let contract = RoundingContract { ranks: self.count, ..self.computing.contract()? };
        let folder = WholeFolder::create(out)?;
        let mut writers =
            (0..self.count).map(|rank| writer(folder.inside(), rank)).collect::<Result<Vec<_>, Error>>()?;
        let (choices, recorded, producer) = {
            let mut writes: Vec<_> =
                writers.iter_mut().map(|writer| |name: &str, tensor| writer.write(name, &tensor)).collect();
            let recorders = writes.iter_mut().enumerate().map(|(rank, write)| {
                let config = of_rank_alone(&config.under(&self.semantics), &ranks, rank);
                Recorder::new(write, self.selection.clone(), contract, config, self.steps)
            });
            let mut recorders = RankRecorders { ranks: recorders.collect(), shown: None };
            let (choices, producer) = match &self.computing {
                Computing::Reference(precision) => {
                    self.on_reference(model, (precision.as_str(), contract), &prompt, &mut recorders, watch)?
                }
                Computing::Optimized(device) => self.on_devices(model, *device, &prompt, &mut recorders, watch)?,
            };
            let recorded = recorders.ranks.into_iter().map(Recorder::finish).sum::<Result<usize, Failure>>()?;
            (choices, recorded, producer)
        };
        let made = Made { prompt, choices, recorded };
        let manifest = self.manifest(model, (contract, producer), &made);
        writers.into_iter().try_for_each(|writer| writer.finish(&manifest))?;
        folder.commit()?;
        Ok(made)
    }

    /// What the reference chooses, and what a manifest says of it.
    fn on_reference(
        &self,
        model: &Model,
        (precision, contract): (&str, RoundingContract),
        prompt: &[u32],
        recorders: &mut RankRecorders<'_>,
        watch: &mut Watcher<'_>,
    ) -> Result<(Vec<Choice>, Value), Failure> {
        let config = model.checkpoint.config();
        let weights = HeldWeights::under(&contract, config.norm_weight, &model.checkpoint);
        let ranks = sharing(config, self.count)?;
        let own = RankWeights::of_all(config, ranks, &weights);
        let group = Group::new(config, self.semantics, ranks, &own)?;
        self.begins(model, watch);
        let each = |_: &Choice| watch(Progress::Step);
        let choices = decoded(&group, (precision, contract), prompt, &self.how, recorders, each)?;
        watch(Progress::Ends);
        Ok((choices, json!({ "backend": "reference" })))
    }

    /// What the CUDA path chooses, and what a manifest says of it.
    fn on_devices(
        &self,
        model: &Model,
        device: DeviceChoice,
        prompt: &[u32],
        recorders: &mut RankRecorders<'_>,
        watch: &mut Watcher<'_>,
    ) -> Result<(Vec<Choice>, Value), Failure> {
        let group = load_ranks(model, &self.semantics, (device, self.count), watch)?;
        self.begins(model, watch);
        let choices = decode_optimized(&group, (prompt, None), &self.how, Some(recorders), |_| watch(Progress::Step))?;
        watch(Progress::Ends);
        let (device, emulated) = (group.gpu().name(), group.gpu().form().is_some());
        Ok((choices, json!({ "backend": "optimized", "device": device, "emulated": emulated })))
    }

    fn begins(&self, model: &Model, watch: &mut Watcher<'_>) {
        let what = format!("running {} on {} ranks", model.name, self.count);
        watch(Progress::Begins { what: &what, steps: self.how.tokens });
    }

    fn manifest(&self, model: &Model, (contract, mut producer): (RoundingContract, Value), made: &Made) -> Manifest {
        let tokens = made.tokens();
        // The last token is not read.
        let fed = if self.steps { &tokens[..tokens.len().saturating_sub(1)] } else { &[] };
        producer["library"] = "parity".into();
        producer["version"] = env!("CARGO_PKG_VERSION").into();
        producer["ranks"] = self.count.into();
        Manifest {
            model: Some(model.name.clone()),
            tokens: Some([&made.prompt[..], fed].concat()),
            semantics: Some(self.semantics.to_string()),
            precision: Some(contract.to_string()),
            producer: Some(producer),
            decode: (self.how.tokens > 0).then(|| Decoded { margins: made.margins(), tokens }),
            ..Manifest::default()
        }
    }
}

/// Decodes in f64, in f32, or in f64 with the roundings of a contract. Without tokens to make, the prompt is still read.
fn decoded(
    group: &Group<'_>,
    (precision, contract): (&str, RoundingContract),
    prompt: &[u32],
    how: &Decode,
    recorders: &mut RankRecorders<'_>,
    each: impl FnMut(&Choice),
) -> Result<Vec<Choice>, Failure> {
    match precision {
        "f32" => decoded_in(group, prompt, how, &mut Run::<f32>::new(RoundingContract::IDEAL, recorders), each),
        _ => decoded_in(group, prompt, how, &mut Run::<f64>::new(contract, recorders), each),
    }
}

fn decoded_in<T: Real>(
    group: &Group<'_>,
    prompt: &[u32],
    how: &Decode,
    run: &mut Run<'_, T>,
    each: impl FnMut(&Choice),
) -> Result<Vec<Choice>, Failure> {
    if how.tokens == 0 {
        group.read(prompt, &mut LanguageModel::<T>::cache(group), run)?;
        return Ok(Vec::new());
    }
    Ok(decode(group, prompt, how, run, each)?)
}

/// The dump of a rank in a folder.
fn writer(folder: &Path, rank: usize) -> Result<DumpWriter, Error> {
    let own: PathBuf = folder.join(format!("rank-{rank}"));
    std::fs::create_dir(&own).map_err(|source| Error::Io { path: own.clone(), action: "write", source })?;
    DumpWriter::create(&own.join("dump.safetensors"))
}

/// A rank's decoder, with its part of the vocabulary.
fn of_rank_alone(config: &Config, ranks: &Ranks, rank: usize) -> Config {
    Config { vocab_size: ranks.part(config.vocab_size, rank).len(), ..ranks.config_of(config, rank) }
}

/// Records what each rank has: its part where each has one, else what all have.
struct RankRecorders<'w> {
    ranks: Vec<Recorder<'w>>,
    /// The site whose parts were recorded last.
    shown: Option<Site>,
}

impl<T: Real> Probe<T> for RankRecorders<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<T>) {
        if self.shown.take() == Some(site) {
            return;
        }
        self.ranks.iter_mut().for_each(|recorder| recorder.visit(site, value));
    }

    fn choose(&mut self, site: Site, scores: &Tracked<T>, chosen: &mut Array2<usize>) {
        self.ranks.iter_mut().for_each(|recorder| recorder.choose(site, scores, chosen));
    }

    fn of_rank(&mut self, rank: usize, site: Site, value: &Tracked<T>) {
        self.shown = Some(site);
        self.ranks[rank].visit(site, &mut value.clone());
    }
}

impl Capture for RankRecorders<'_> {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        if self.shown.take() == Some(site) {
            return;
        }
        self.ranks.iter_mut().for_each(|recorder| recorder.value(site, value.clone()));
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        self.ranks.iter_mut().for_each(|recorder| recorder.choices(site, chosen.clone()));
    }

    fn of_rank(&mut self, rank: usize, site: Site, value: ArrayView2<'_, f32>) {
        self.shown = Some(site);
        self.ranks[rank].value(site, value.to_owned());
    }
}
