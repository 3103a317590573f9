//! A port with one known mistake, to try parity on: the reference of a built-in model with that mistake, in f32. It reads the
//! prompt, and where only calls behind it show the mistake, the tokens that follow in the case, one by one.

use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::checkpoint::held::HeldWeights;
use reference::RoundingContract;
use reference::ops::kv_cache::KvCache;
use reference::run::Run;
use serde_json::json;

use super::mistakes::require_known;
use super::model::Model;
use super::pixels::Shown;
use super::precision::named;
use super::prompt::Prompt;
use super::recorder::Recorder;
use crate::compare::selection::Selection;
use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::catalogue::list;
use crate::diagnose::catalogue::mistake::{Assumed, Clue, Mistake};
use crate::failure::Failure;

/// Built-in models, of which the first is taken in which a mistake can be made: M2, M3, one that sees images, one that
/// sees a video, and M2 with more than ten experts.
const CASES: [&str; 5] = ["m2-gqa3-f32", "m3-gqa4-f32", "vision-images-f32", "vision-video-f32", "m2-f16-weights-f32"];

/// Tokens that it reads one by one, at most.
const DECODED: usize = 6;

/// How the port computes.
const PRECISION: &str = "f32";

/// Who wrote a dump, by which one of an earlier demonstration is known.
const PRODUCER: &str = "parity demo";

/// A built-in model, and the first way of a mistake in it. Refused, if there is no such mistake, or it cannot be made in
/// any of the models.
pub fn made(name: &str) -> Result<(Model, Assumed), Failure> {
    require_known(name)?;
    for case in CASES {
        let model = Model::open(case)?;
        let tokens = Prompt::find(None, &model, None)?.tokens.len();
        let in_prompt = Clue { position: tokens / 2, last: tokens / 4, tokens, context: 0 };
        let in_step = Clue { position: tokens, last: tokens, tokens: tokens + 1, context: tokens };
        let semantics = model.semantics()?;
        let all = list::all().filter(|mistake| mistake.name == name);
        let clue = |mistake: &Mistake| if mistake.needs_calls() { in_step } else { in_prompt };
        let mut ways = all.flat_map(|mistake| mistake.cases(model.checkpoint.config(), clue(mistake)));
        let first = ways.find(|assumed| !assumed.change.is_in(&semantics));
        drop(ways);
        if let Some(assumed) = first {
            return Ok((model, assumed));
        }
    }
    Err(Failure::new(format!("{name} cannot be made in the built-in models"))
        .help(format!("`parity mistakes {name}` tells in which models it can be made, and what shows it")))
}

/// Writes what a port with the mistake computes of the model's prompt. Its manifest says nothing of the mistake.
pub fn write(model: &Model, assumed: &Assumed, path: &Path) -> Result<(), Failure> {
    let contract = named(PRECISION)?;
    let config = model.checkpoint.config();
    let semantics = model.semantics()?;
    let assumption = Assumption::none(semantics).and(assumed.clone())?;
    let held = HeldWeights::under(&contract, config.norm_weight, &model.checkpoint);
    let weights = assumption.weights(config, &held);
    let prompt = Prompt::find(None, model, None)?;
    let media = Shown::default().find(model, &prompt)?;
    let port = assumption.model(config, &weights)?.seeing(media.as_ref());
    let mut writer = DumpWriter::create(path)?;
    let mut write = |name: &str, tensor| writer.write(name, &tensor);
    let decodes = assumed.mistake.needs_calls();
    let mut recorder = Recorder::new(&mut write, Selection::default(), contract, port.config().clone(), decodes);
    let read = &prompt.decoded[..if decodes { prompt.decoded.len().min(DECODED) } else { 0 }];
    let (mut cache, mut run) =
        (KvCache::new(port.config().num_hidden_layers), Run::<f32>::new(RoundingContract::IDEAL, &mut recorder));
    for tokens in std::iter::once(&prompt.tokens[..]).chain(read.chunks(1)) {
        port.forward(tokens, &mut cache, &mut run)?;
    }
    recorder.finish()?;
    writer.finish(&Manifest {
        model: Some(model.name.clone()),
        tokens: Some([&prompt.tokens[..], read].concat()),
        semantics: Some(semantics.to_string()),
        precision: Some(contract.to_string()),
        producer: Some(json!({ "library": PRODUCER, "version": env!("CARGO_PKG_VERSION") })),
        ..Manifest::default()
    })?;
    Ok(())
}

/// Whether a file is a dump of an earlier demonstration.
pub fn is_own(path: &Path) -> bool {
    let dump = Dump::open(path).ok();
    let producer = dump.as_ref().and_then(|dump| dump.manifest()?.producer.as_ref()?.get("library")?.as_str());
    producer == Some(PRODUCER)
}
