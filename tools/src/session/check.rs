//! The CUDA path next to the reference.

mod modules;

use bytesize::ByteSize;
use modules::{Modules, Ran};
use optimized::device::{DeviceChoice, Gpu};
use optimized::models::decoder::Decoder;
use reference::decode::Decode;
use reference::media::Media;
use reference::models::mtp::ModuleWeights;
use reference::ops::sampling::Sampling;
use reference::site::Extent;
use reference::{RoundingContract, Semantics, Site};

use super::asked::{Asked, Subject, reports};
use super::backend::{load_optimized, load_ranks};
use super::compared::compared;
use super::decoding::decode_optimized;
use super::decoding::on_device::OnDevice;
use super::model::Model;
use super::need;
use super::pixels::Shown;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use super::room::require_room;
use crate::failure::Failure;
use crate::judge::candidate::Live;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::report::content::Report;
use crate::report::coverage::operators;

/// What the CUDA path computes.
#[derive(Debug, Clone)]
pub struct Computed {
    /// The prompt, as `--tokens` has it; a built-in case's own, if not given.
    pub tokens: Option<String>,
    /// What the prompt shows.
    pub shown: Shown,
    /// Tokens to decode after it.
    pub decode: usize,
    /// The reading of the documents.
    pub semantics: Semantics,
    /// The device.
    pub device: DeviceChoice,
    /// How many ranks share the model, if it is run so.
    pub ranks: Option<usize>,
}

/// Refuses a check that needs more anonymous memory than there may be, by an estimate: what an emulated device holds, what it
/// computes, and what judging that takes.
pub fn require_memory(model: &Model, computed: &Computed, memory: ByteSize) -> Result<(), Failure> {
    let config = model.checkpoint.config().under(&computed.semantics);
    let prompt = Prompt::find(computed.tokens.as_deref(), model, None)?;
    let patches = computed.shown.find(model, &prompt)?.as_ref().map(Media::patches).unwrap_or_default();
    let read = prompt.tokens.len() + computed.decode.saturating_sub(1);
    let need = need::of_check(&config, Extent::new(read, read).seeing(patches)) + need::of_weights(&model.checkpoint);
    require_room(memory, &format!("checking {}", model.name), need)
}

/// Runs the CUDA path, and puts what it computes next to the reference: a report on the model, and one on each module of
/// multi-token prediction that its checkpoint has, as far as anything is selected there.
pub fn check(
    model: &Model,
    computed: &Computed,
    asked: &Asked,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    let Computed { tokens, shown, decode, semantics, device, ranks } = computed;
    let prompt = Prompt::find(tokens.as_deref(), model, None)?;
    prompt.check(model.checkpoint.config(), *decode)?;
    let media = shown.find(model, &prompt)?;
    if let Some(count) = *ranks {
        if media.is_some() {
            return Err(Failure::new(format!("--tp {count}: the prompt shows images or videos"))
                .help("ranks run the text model alone: leave --tp out, or give a prompt of text"));
        }
        return check_ranks(model, (computed, count), prompt, asked, watch);
    }
    let optimized = load_optimized(model, semantics, *device, watch)?;
    let what = format!("running {}", model.name);
    let ran = Text::of(&optimized, &what, (prompt, media.as_ref()), *decode, watch)?;
    let candidate = format!("the CUDA path on {}", optimized.gpu().name());
    let subject =
        ran.subject((model, *semantics), media.as_ref(), RoundingContract::PARITY, (candidate, optimized.gpu()));
    let (prompt, live) = (&ran.prompt, &ran.live);
    let config = model.checkpoint.config().under(semantics);
    let text = [&prompt.tokens[..], &prompt.decoded].concat();
    let modules = Modules {
        model: &optimized,
        weights: &model.checkpoint,
        count: model.checkpoint.mtp_modules(),
        selection: &asked.selection,
    };
    let of_modules = modules.run(&text, prompt.tokens.len(), live)?;
    // Places that modules alone have may be all that is selected.
    let is_asked = of_modules.is_empty() || Site::all(&config).any(|site| asked.selection.has(site));
    let mut all = if is_asked { reports(model, &[subject], asked, watch)? } else { Vec::new() };
    for ran in of_modules {
        all.extend(of_module((model, &optimized), computed, (&ran, prompt.tokens.len()), asked, watch)?);
    }
    Ok(all)
}

/// Puts what so many ranks computed together next to the reference, which is not shared: its bounds are those of sums over ranks.
fn check_ranks(
    model: &Model,
    (computed, count): (&Computed, usize),
    prompt: Prompt,
    asked: &Asked,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    let Computed { decode, semantics, device, .. } = computed;
    let group = load_ranks(model, semantics, (*device, count), watch)?;
    let what = format!("running {} on {count} ranks", model.name);
    let ran = Text::of(&group, &what, (prompt, None), *decode, watch)?;
    let candidate = format!("the CUDA path on {count} ranks, on {}", group.gpu().name());
    let contract = RoundingContract { ranks: count, ..RoundingContract::PARITY };
    reports(model, &[ran.subject((model, *semantics), None, contract, (candidate, group.gpu()))], asked, watch)
}

/// What devices made of a prompt.
struct Text {
    /// With what was decoded after it.
    prompt: Prompt,
    live: Live,
    /// What was read, in one pass.
    steps: [Vec<u32>; 1],
}

impl Text {
    fn of<M: OnDevice>(
        model: &M,
        what: &str,
        (mut prompt, media): (Prompt, Option<&Media>),
        decode: usize,
        watch: &mut Watcher<'_>,
    ) -> Result<Self, Failure> {
        watch(Progress::Begins { what, steps: decode });
        let mut live = Live::default();
        let how = Decode { tokens: decode, sampling: Sampling::Greedy, seed: 0, chunk: None };
        let read = (&prompt.tokens[..], media);
        let choices = decode_optimized(model, read, &how, Some(&mut live), |_| watch(Progress::Step))?;
        watch(Progress::Ends);
        prompt.decoded = choices.iter().map(|choice| choice.token).collect();
        // The last token is not read.
        let fed = &prompt.decoded[..prompt.decoded.len().saturating_sub(1)];
        let steps = [[&prompt.tokens[..], fed].concat()];
        Ok(Text { prompt, live, steps })
    }

    /// It, next to a model in one reading.
    fn subject<'a>(
        &'a self,
        (model, semantics): (&'a Model, Semantics),
        media: Option<&'a Media>,
        contract: RoundingContract,
        (candidate, gpu): (String, &Gpu),
    ) -> Subject<'a> {
        let Text { prompt, live, steps } = self;
        let compared = compared((model, semantics), live, (steps, prompt.tokens.len()), media);
        Subject {
            comparison: Comparison::new(compared, contract),
            name: model.name.clone(),
            candidate,
            precision_from: "what the kernels do".into(),
            notes: notes(model, prompt.tokens.len(), steps[0].len()),
            unsure: None,
            unread: 0,
            prompt,
            whole: true,
            emulated: Some(gpu.form().is_some()),
        }
    }
}

/// Puts what a module computed next to the reference, which is given its tokens and hidden states.
fn of_module(
    (model, optimized): (&Model, &Decoder),
    computed: &Computed,
    (ran, prompt): (&Ran, usize),
    asked: &Asked,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    let config = ran.config(model.checkpoint.config());
    let weights = ModuleWeights { weights: &model.checkpoint, module: ran.module };
    let steps = [ran.tokens.clone()];
    let compared = Compared {
        config: &config,
        weights: &weights,
        semantics: computed.semantics,
        candidate: &ran.live,
        steps: &steps,
        prompt,
        media: None,
        hidden: Some(&ran.hidden),
    };
    let read = prompt.min(ran.tokens.len());
    let own = format!("the hidden states of its {} rows are those that it read on the device", ran.tokens.len());
    let subject = Subject {
        comparison: Comparison::new(compared, RoundingContract::PARITY),
        name: format!("{}, MTP module {}", model.name, ran.module.number),
        candidate: format!("the CUDA path on {}", optimized.gpu().name()),
        precision_from: "what the kernels do".into(),
        notes: [own].into_iter().chain(notes(model, read, ran.tokens.len())).collect(),
        unsure: None,
        unread: 0,
        prompt: &Prompt { tokens: ran.tokens.clone(), decoded: Vec::new() },
        whole: true,
        emulated: Some(optimized.gpu().form().is_some()),
    };
    let demands = asked.demands.possible(&operators(&config, 0));
    reports(model, &[subject], &Asked { demands, ..asked.clone() }, watch)
}

/// What the reader should know: how positions were read, and that the CUDA path has bf16 weights.
fn notes(model: &Model, prompt: usize, read: usize) -> Vec<String> {
    let mut notes = Vec::new();
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
