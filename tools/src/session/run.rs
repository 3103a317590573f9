//! A backend's run: the tokens that it makes, and what it computes on the way, recorded.

use bytesize::ByteSize;
use fixtures::activations::manifest::{Decode as Decoded, Manifest};
use fixtures::checkpoint::held::HeldWeights;
use optimized::models::capture::Capture;
use reference::Semantics;
use reference::decode::Decode;
use reference::media::Media;
use reference::models::decoder::Decoder;
use reference::ops::sampling::Choice;
use reference::probe::{NoProbe, Probe};
use reference::site::Extent;
use serde_json::{Value, json};

use super::backend::{Computing, load_optimized};
use super::decoding::{decode_optimized, decode_reference};
use super::model::Model;
use super::need;
use super::pixels::Shown;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use super::recorder::{Recorder, Writing};
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
    let (prompt, choices, _) = task.carry_out::<Recorder>(model, None, watch)?;
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
    let mut recorder = Recorder::new(to.write, to.selection, contract, config, to.steps);
    let (prompt, choices, producer) = task.carry_out(model, Some(&mut recorder), watch)?;
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
    let of_weights = model.checkpoint.tensors().map(|tensor| 2 * tensor.shape.iter().product::<usize>() as u64);
    let weights = if matches!(task.computing, Computing::Optimized(_)) { of_weights.sum() } else { 0 };
    require_room(memory, &format!("running {}", model.name), run + weights)
}

impl Task {
    /// The prompt, what was chosen after it, and what a manifest says of who computed that.
    fn carry_out<P: Probe<f64> + Probe<f32> + Capture>(
        &self,
        model: &Model,
        probe: Option<&mut P>,
        watch: &mut Watcher<'_>,
    ) -> Result<(Vec<u32>, Vec<Choice>, Value), Failure> {
        let (config, how) = (model.checkpoint.config(), &self.how);
        let prompt = Prompt::find(self.tokens.as_deref(), model, None)?;
        prompt.check(config, how.tokens)?;
        let media = self.shown.find(model, &prompt)?;
        if let (Some(chunk), Some(_)) = (how.chunk, &media) {
            return Err(Failure::new(format!("--chunk {chunk}: the prompt shows images or videos"))
                .help("leave --chunk out: what is shown is read with the whole prompt"));
        }
        let prompt = prompt.tokens;
        let contract = self.computing.contract()?;
        let running = format!("running {}", model.name);
        let begins = Progress::Begins { what: &running, steps: how.tokens };
        let mut producer = json!({ "library": "parity", "version": env!("CARGO_PKG_VERSION") });
        let choices = match &self.computing {
            Computing::Reference(precision) => {
                producer["backend"] = "reference".into();
                let weights = HeldWeights::under(&contract, config.norm_weight, &model.checkpoint);
                let decoder = Decoder::new(config, self.semantics, &weights)?.seeing(media.as_ref());
                watch(begins);
                let each = |_: &Choice| watch(Progress::Step);
                match probe {
                    Some(probe) => decode_reference(&decoder, precision, &prompt, how, probe, each)?,
                    None => decode_reference(&decoder, precision, &prompt, how, &mut NoProbe, each)?,
                }
            }
            Computing::Optimized(device) => {
                let optimized = load_optimized(model, &self.semantics, *device, watch)?;
                producer["backend"] = "optimized".into();
                producer["device"] = optimized.gpu().name().into();
                producer["emulated"] = optimized.gpu().form().is_some().into();
                watch(begins);
                let (read, capture) = ((&prompt[..], media.as_ref()), probe.map(|probe| probe as &mut dyn Capture));
                decode_optimized(&optimized, read, how, capture, |_| watch(Progress::Step))?
            }
        };
        watch(Progress::Ends);
        Ok((prompt, choices, producer))
    }
}
