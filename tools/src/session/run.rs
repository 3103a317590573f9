//! A backend's run: the tokens that it makes, and what it computes on the way, recorded.

use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use fixtures::Tensor;
use fixtures::activations::manifest::{Decode as Decoded, Manifest};
use fixtures::checkpoint::held::HeldWeights;
use optimized::models::capture::Capture;
use reference::Semantics;
use reference::decode::Decode;
use reference::media::Media;
use reference::models::decoder::Decoder;
use reference::ops::sampling::Choice;
use reference::site::Extent;
use serde_json::{Value, json};

use super::backend::{Computing, load_optimized};
use super::decoding::{Beside, decode_optimized, decode_reference};
use super::identity::Running;
use super::kept::Kept;
use super::model::Model;
use super::need;
use super::pixels::Shown;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use super::recorder::{Recorder, Writing};
use super::resume::Folder;
use super::room::require_room;
use crate::compare::selection::Selection;
use crate::failure::Failure;

/// What is run.
#[derive(Debug, Clone)]
pub struct Task {
    /// What computes it.
    pub computing: Computing,
    /// The prompt, as `--tokens` has it; a built-in case's own, if not given.
    pub tokens: Option<String>,
    /// What the prompt shows.
    pub shown: Shown,
    /// The reading of the documents.
    pub semantics: Semantics,
    /// Tokens to make after the prompt, and how.
    pub how: Decode,
}

/// Where what is computed goes.
pub struct Recording<'w> {
    /// Takes each activation.
    pub write: &'w mut Writing<'w>,
    /// Sites that are wanted.
    pub selection: Selection,
    /// Whether every decode step's are wanted, not the prompt's alone.
    pub steps: bool,
    /// The folder in which finished phases are kept, of a run of the reference.
    pub resume: Option<PathBuf>,
}

/// What was made.
#[derive(Debug, Clone)]
pub struct Made {
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    /// The tokens after it, with their margins.
    pub choices: Vec<Choice>,
    /// How many activations were recorded.
    pub recorded: usize,
}

impl Made {
    /// The tokens after the prompt.
    pub fn tokens(&self) -> Vec<u32> {
        self.choices.iter().map(|choice| choice.token).collect()
    }

    /// By how much each was ahead of the next.
    pub fn margins(&self) -> Vec<f64> {
        self.choices.iter().map(|choice| choice.margin).collect()
    }
}

/// Runs a backend, and records nothing.
pub fn run(model: &Model, task: &Task, watch: &mut Watcher<'_>) -> Result<Made, Failure> {
    let (prompt, choices, _) = task.carry_out(model, &task.opened(model)?, (None, None), watch)?;
    Ok(Made { prompt, choices, recorded: 0 })
}

/// Runs a backend, and records it: what was made, and what a dump of it says of itself.
pub fn record(
    model: &Model,
    task: &Task,
    to: Recording<'_>,
    watch: &mut Watcher<'_>,
) -> Result<(Made, Manifest), Failure> {
    let contract = task.computing.contract()?;
    let config = model.checkpoint.config().under(&task.semantics);
    let opened = task.opened(model)?;
    let kept = to.resume.as_deref().map(|path| task.kept(model, &opened, (path, &to.selection, to.steps)));
    let kept = kept.transpose()?;
    let mut write = |name: &str, tensor: Tensor<'static>| {
        kept.as_ref().map_or(Ok(()), |kept| kept.show(name, &tensor))?;
        (to.write)(name, tensor)
    };
    let mut recorder = Recorder::new(&mut write, to.selection, contract, config, to.steps);
    let (prompt, choices, producer) = task.carry_out(model, &opened, (Some(&mut recorder), kept.as_ref()), watch)?;
    let made = Made { prompt, choices, recorded: recorder.finish()? };
    let tokens = made.tokens();
    // The last token is not read.
    let fed = if to.steps { &tokens[..tokens.len().saturating_sub(1)] } else { &[] };
    let manifest = Manifest {
        model: Some(model.name.clone()),
        tokens: Some([&made.prompt[..], fed].concat()),
        semantics: Some(task.semantics.to_string()),
        precision: Some(contract.to_string()),
        producer: Some(producer),
        decode: (task.how.tokens > 0).then(|| Decoded { margins: made.margins(), tokens }),
        ..Manifest::default()
    };
    Ok((made, manifest))
}

/// Refuses a run that needs more anonymous memory than there may be, by an estimate: what it carries and makes, and for the CUDA
/// path the weights, as an emulated device holds them.
pub fn require_memory(model: &Model, task: &Task, memory: ByteSize) -> Result<(), Failure> {
    let config = model.checkpoint.config().under(&task.semantics);
    let prompt = Prompt::find(task.tokens.as_deref(), model, None)?;
    let patches = task.shown.find(model, &prompt)?.as_ref().map(Media::patches).unwrap_or_default();
    let read = prompt.tokens.len();
    let run = need::of_run(&config, Extent::new(read, read).seeing(patches), read + task.how.tokens);
    let weights =
        if matches!(task.computing, Computing::Optimized(_)) { need::of_weights(&model.checkpoint) } else { 0 };
    require_room(memory, &format!("running {}", model.name), run + weights)
}

/// A prompt that is known to fit the model, and what it shows.
pub(super) struct Opened {
    pub(super) prompt: Vec<u32>,
    pub(super) media: Option<Media>,
}

impl Task {
    pub(super) fn opened(&self, model: &Model) -> Result<Opened, Failure> {
        let prompt = Prompt::find(self.tokens.as_deref(), model, None)?;
        prompt.check(model.checkpoint.config(), self.how.tokens)?;
        let media = self.shown.find(model, &prompt)?;
        if let (Some(chunk), Some(_)) = (self.how.chunk, &media) {
            return Err(Failure::new(format!("--chunk {chunk}: the prompt shows images or videos"))
                .help("leave --chunk out: what is shown is read with the whole prompt"));
        }
        Ok(Opened { prompt: prompt.tokens, media })
    }

    /// The phases that are done of this run, in a folder.
    fn kept(
        &self,
        model: &Model,
        Opened { prompt, media }: &Opened,
        (path, selection, steps): (&Path, &Selection, bool),
    ) -> Result<Kept, Failure> {
        let Computing::Reference(precision) = &self.computing else {
            return Err(Failure::new("--resume: the CUDA path's runs are not kept")
                .help("leave --resume out, or add --backend reference"));
        };
        let written = format!("{selection}{}", if steps { " --steps" } else { "" });
        let written = if written.is_empty() { "all".to_owned() } else { written };
        let Decode { sampling, seed, chunk, .. } = self.how;
        let choosing = format!("{sampling:?}, seed {seed}, chunks of {chunk:?}");
        let facts = [precision.clone(), self.semantics.to_string(), written, choosing];
        Ok(Kept::new(&Folder::open(path, &Running::of(model, (prompt, media.as_ref()), facts))?))
    }

    /// What was chosen after the prompt, and what a manifest says of who computed that.
    fn carry_out(
        &self,
        model: &Model,
        Opened { prompt, media }: &Opened,
        (recorder, kept): (Option<&mut Recorder<'_>>, Option<&Kept>),
        watch: &mut Watcher<'_>,
    ) -> Result<(Vec<u32>, Vec<Choice>, Value), Failure> {
        let (config, how) = (model.checkpoint.config(), &self.how);
        let contract = self.computing.contract()?;
        let mut producer = json!({ "library": "parity", "version": env!("CARGO_PKG_VERSION") });
        let choices = match &self.computing {
            Computing::Reference(precision) => {
                producer["backend"] = "reference".into();
                let weights = HeldWeights::under(&contract, config.norm_weight, &model.checkpoint);
                let decoder = Decoder::new(config, self.semantics, &weights)?.seeing(media.as_ref());
                let mut beside = Beside { checkpoint: &model.checkpoint, recorder, kept };
                decode_reference(&decoder, precision, (prompt, how), &mut beside, watch)?
            }
            Computing::Optimized(device) => {
                let optimized = load_optimized(model, &self.semantics, *device, watch)?;
                producer["backend"] = "optimized".into();
                producer["device"] = optimized.gpu().name().into();
                producer["emulated"] = optimized.gpu().form().is_some().into();
                watch(Progress::Begins { what: &format!("running {}", model.name), steps: how.tokens });
                let capture = recorder.map(|recorder| recorder as &mut dyn Capture);
                let read = (&prompt[..], media.as_ref());
                let choices = decode_optimized(&optimized, read, how, capture, |_| watch(Progress::Step))?;
                watch(Progress::Ends);
                choices
            }
        };
        Ok((prompt.clone(), choices, producer))
    }
}
