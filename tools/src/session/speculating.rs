//! Speculative decoding by a model's modules of multi-token prediction, on the reference, beside plain decoding.

use fixtures::checkpoint::held::HeldWeights;
use fixtures::synth::modules::Repeating;
use reference::models::decoder::Decoder;
use reference::models::mtp::topology;
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::Choice;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::speculative::mtp::MtpDrafter;
use reference::speculative::{Acceptance, Speculation, speculate};
use reference::weights::Weights;
use reference::{Error, Real, RoundingContract};

use super::backend::Computing;
use super::model::Model;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use super::run::{Made, Task, run};
use crate::failure::Failure;

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

/// Decodes with up to so many drafts a round, and plainly. A built-in case's model, which has no modules, is given some.
pub fn speculating(model: &Model, task: &Task, drafts: usize, watch: &mut Watcher<'_>) -> Result<Speculated, Failure> {
    let Computing::Reference(precision) = &task.computing else {
        return Err(Failure::new("--speculate: the CUDA path has no modules of multi-token prediction")
            .help("add --backend reference"));
    };
    let config = model.checkpoint.config();
    let are_its_own = model.checkpoint.mtp_modules() > 0;
    let repeating = Repeating::of(config, &model.checkpoint).filter(|_| model.case.is_some());
    let (weights, modules): (&dyn Weights, usize) = match &repeating {
        _ if are_its_own => (&model.checkpoint, model.checkpoint.mtp_modules()),
        Some(repeating) => (repeating, config.num_mtp_modules),
        None => return Err(lacking(model)),
    };
    let contract = task.computing.contract()?;
    let held = HeldWeights::under(&contract, config.norm_weight, weights);
    let prompt = Prompt::find(task.tokens.as_deref(), model, None)?;
    let media = task.shown.find(model, &prompt)?;
    let decoder = Decoder::new(config, task.semantics, &held)?.seeing(media.as_ref());
    if topology(&decoder).has_a_module_each() && drafts > modules {
        let problem = format!("--speculate {drafts}: {} has modules for {modules} drafts, one each", model.name);
        return Err(Failure::new(problem).help(format!("expected at most {modules}")));
    }
    let plain = run(model, task, watch)?;
    let how =
        Speculation { tokens: task.how.tokens, drafts, sampling: task.how.sampling, seed: task.how.seed, slip: None };
    watch(Progress::Begins { what: "decoding with drafts", steps: how.tokens });
    let each = |_: &Choice| watch(Progress::Step);
    let made = match precision.as_str() {
        "f32" => by_modules::<f32>(&decoder, &plain.prompt, &how, contract, each),
        _ => by_modules::<f64>(&decoder, &plain.prompt, &how, contract, each),
    };
    let (choices, acceptance) = made?;
    watch(Progress::Ends);
    Ok(Speculated { plain, choices, acceptance, are_its_own })
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
    speculate(model, prompt, how, (&mut drafter, &mut cache), &mut run, each)
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
