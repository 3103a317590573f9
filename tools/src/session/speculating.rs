//! Speculative decoding by a model's modules of multi-token prediction, on either backend, beside plain decoding.

pub mod device;

use fixtures::checkpoint::held::HeldWeights;
use fixtures::synth::modules::Repeating;
use optimized::device::DeviceChoice;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::Choice;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::speculative::mtp::MtpDrafter;
use reference::speculative::{Acceptance, Reference, Speculation, speculate};
use reference::weights::Weights;
use reference::{Error, Real, RoundingContract};

use super::backend::{Computing, load_optimized};
use super::decoding::decode_optimized;
use super::model::Model;
use super::progress::{Progress, Watcher};
use super::run::{Made, Opened, Task, run};
use crate::failure::Failure;
use device::by_modules_of;

/// What was made with drafts, and without.
#[derive(Debug, Clone)]
pub struct Speculated {
    /// Without.
    pub plain: Made,
    /// The tokens that were made with drafts.
    pub choices: Vec<Choice>,
    /// How many drafts were accepted.
    pub acceptance: Acceptance,
    /// Whether the modules are the checkpoint's, and not made for it.
    pub are_its_own: bool,
}

/// Where modules come from.
struct Source<'a> {
    weights: &'a dyn Weights,
    modules: usize,
}

/// Decodes with up to so many drafts a round, and plainly. A built-in case's model, which has no modules, is given some.
pub fn speculating(model: &Model, task: &Task, drafts: usize, watch: &mut Watcher<'_>) -> Result<Speculated, Failure> {
    let config = model.checkpoint.config();
    let own = model.checkpoint.mtp_modules();
    let repeating = Repeating::of(config, &model.checkpoint).filter(|_| model.case.is_some());
    let source = match &repeating {
        _ if own > 0 => Source { weights: &model.checkpoint, modules: own },
        Some(repeating) => Source { weights: repeating, modules: config.num_mtp_modules },
        None => return Err(lacking(model)),
    };
    if config.mtp_topology(&task.semantics).has_a_module_each() && drafts > source.modules {
        let problem =
            format!("--speculate {drafts}: {} has modules for {} drafts, one each", model.name, source.modules);
        return Err(Failure::new(problem).help(format!("expected at most {}", source.modules)));
    }
    let how =
        Speculation { tokens: task.how.tokens, drafts, sampling: task.how.sampling, seed: task.how.seed, slip: None };
    let (plain, choices, acceptance) = match &task.computing {
        Computing::Reference(precision) => on_reference((model, task), (precision, &source), &how, watch)?,
        Computing::Optimized(device) => on_device((model, task), (*device, &source), &how, watch)?,
    };
    Ok(Speculated { plain, choices, acceptance, are_its_own: own > 0 })
}

fn on_reference(
    (model, task): (&Model, &Task),
    (precision, source): (&str, &Source<'_>),
    how: &Speculation,
    watch: &mut Watcher<'_>,
) -> Result<(Made, Vec<Choice>, Acceptance), Failure> {
    let config = model.checkpoint.config();
    let contract = task.computing.contract()?;
    let held = HeldWeights::under(&contract, config.norm_weight, source.weights);
    let Opened { media, .. } = task.opened(model)?;
    let decoder = Decoder::new(config, task.semantics, &held)?.seeing(media.as_ref());
    let plain = run(model, task, watch)?;
    watch(Progress::Begins { what: "decoding with drafts", steps: how.tokens });
    let each = |_: &Choice| watch(Progress::Step);
    let (choices, acceptance) = match precision {
        "f32" => by_modules::<f32>(&decoder, &plain.prompt, how, contract, each),
        _ => by_modules::<f64>(&decoder, &plain.prompt, how, contract, each),
    }?;
    watch(Progress::Ends);
    Ok((plain, choices, acceptance))
}

fn by_modules<T: Real>(
    model: &Decoder<'_>,
    prompt: &[u32],
    how: &Speculation,
    contract: RoundingContract,
    each: impl FnMut(&Choice),
) -> Result<(Vec<Choice>, Acceptance), Error> {
    let mut drafter = MtpDrafter::<T>::new(model, how.drafts, contract)?;
    let mut cache = KvCache::new(model.config().num_hidden_layers);
    let mut unseen = NoProbe;
    let mut run = Run::new(contract, &mut unseen);
    speculate(&mut Reference { model, cache: &mut cache, run: &mut run }, prompt, how, &mut drafter, each)
}

fn on_device(
    (model, task): (&Model, &Task),
    (device, source): (DeviceChoice, &Source<'_>),
    how: &Speculation,
    watch: &mut Watcher<'_>,
) -> Result<(Made, Vec<Choice>, Acceptance), Failure> {
    let Opened { prompt, media } = task.opened(model)?;
    let optimized = load_optimized(model, &task.semantics, device, watch)?;
    watch(Progress::Begins { what: &format!("running {}", model.name), steps: how.tokens });
    let choices = decode_optimized(&optimized, (&prompt, media.as_ref()), &task.how, None, |_| watch(Progress::Step))?;
    watch(Progress::Ends);
    let plain = Made { prompt, choices, recorded: 0 };
    watch(Progress::Begins { what: "decoding with drafts", steps: how.tokens });
    let features = media.as_ref().map_or(Ok(Vec::new()), |media| optimized.features(media, None))?;
    let each = |_: &Choice| watch(Progress::Step);
    let (choices, acceptance) = by_modules_of(&optimized, source.weights, (&plain.prompt, features), how, each)?;
    watch(Progress::Ends);
    Ok((plain, choices, acceptance))
}

/// A model without modules.
fn lacking(model: &Model) -> Failure {
    let announced = model.checkpoint.config().num_mtp_modules;
    let problem = format!(
        "{}: the checkpoint has no modules of multi-token prediction (no mtp.* tensors), where its configuration has {announced}; \
         neither have the released checkpoints of M2.7 and M3, whatever their config.json announces",
        model.name
    );
    Failure::new(problem).help(
        "try it with a built-in case, for which modules are made, or with a checkpoint of `parity synth CONFIG --mtp-modules N`",
    )
}
