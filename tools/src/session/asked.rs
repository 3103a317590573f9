//! What is asked of a comparison, and the report that answers it.

use std::ops::Range;

use reference::Site;

use super::model::Model;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use super::work;
use crate::compare::selection::Selection;
use crate::diagnose::detection::{Detection, detect};
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::decoded::{Decoded, judge_decoded};
use crate::judge::floor::MEMBERS;
use crate::judge::lens::Lens;
use crate::judge::loaded::Loaded;
use crate::judge::replay::Choices;
use crate::judge::verification::extent;
use crate::report::content::{Header, Report};
use crate::report::demands::Demands;
use crate::report::pictures::TowerPass;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The lenses; all of them, and the decoded tokens, if none is named.
    pub lenses: Vec<Lens>,
    /// Which part of the model is looked at.
    pub selection: Selection,
    /// What counts as a fault beside those that are found.
    pub demands: Demands,
    /// Whether it is asked what the candidate's values can show.
    pub detection: bool,
    /// The command that asks it, without what restricts it to a part.
    pub command: String,
}

/// A comparison, and what its report says of it in words.
pub(super) struct Subject<'a> {
    pub(super) comparison: Comparison<'a>,
    /// The model as it is named, and the request's number where there are several.
    pub(super) name: String,
    /// The candidate, and who made it.
    pub(super) candidate: String,
    /// From where the candidate's precision is known.
    pub(super) precision_from: String,
    /// What else the reader should know.
    pub(super) notes: Vec<String>,
    /// The prompt, and what the candidate decoded after it.
    pub(super) prompt: &'a Prompt,
    /// Whether the candidate's passes begin at the first position.
    pub(super) whole: bool,
    /// Of the CUDA path, whether it ran on the emulated device, where functions are known to the last bit.
    pub(super) emulated: Option<bool>,
}

/// Reports on candidates of a model, one a request.
pub(super) fn reports(
    model: &Model,
    subjects: &[Subject<'_>],
    asked: &Asked,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    let all = [Lens::Local, Lens::Layer, Lens::Global];
    let lenses = if asked.lenses.is_empty() { &all[..] } else { &asked.lenses };
    let layers = asked.selection.layers(model.checkpoint.config().num_hidden_layers);
    let comparisons: Vec<Comparison<'_>> = subjects.iter().map(|subject| subject.comparison).collect();
    let items = work::list(&comparisons, &layers, lenses)?;
    let found = work::execute(&comparisons, &items, &format!("verifying {}", model.name), watch)?;
    let mut reports = Vec::with_capacity(subjects.len());
    for (subject, found) in subjects.iter().zip(found) {
        let config = model.checkpoint.config().under(&subject.comparison.compared.semantics);
        let mut report = Report::of(header(model, subject, asked), found, &asked.selection, &config)?;
        report.hold_to(&asked.demands)?;
        if let Some(emulated) = subject.emulated.filter(|_| lenses.contains(&Lens::Local)) {
            let reference = subject.comparison.model()?;
            let verification = subject.comparison.verification(&reference, lenses, layers.clone());
            watch(Progress::Begins { what: "summing in the candidate's order", steps: verification.phases() });
            let exact = verification.exactness(emulated, || watch(Progress::Step))?;
            watch(Progress::Ends);
            report.exact = exact.map(|exact| exact.of(&asked.selection));
        }
        if asked.detection {
            report.detection = Some(detected(&subject.comparison, &layers, watch)?);
        }
        let decodes = subject.whole && !subject.prompt.decoded.is_empty();
        if asked.selection.is_all() && asked.lenses.is_empty() && decodes {
            report.decode = Some(decode(subject, watch)?);
        }
        reports.push(report);
    }
    Ok(reports)
}

fn header(model: &Model, subject: &Subject<'_>, asked: &Asked) -> Header {
    let Compared { semantics, steps, media, config, .. } = subject.comparison.compared;
    Header {
        model: subject.name.clone(),
        size: model.size(),
        candidate: subject.candidate.clone(),
        precision: subject.comparison.contract,
        precision_from: subject.precision_from.clone(),
        semantics,
        steps: steps.iter().map(Vec::len).collect(),
        shown: TowerPass::of(media, config.vision.as_ref()),
        layers: config.num_hidden_layers,
        head_dim: config.head_dim,
        notes: model.readings(&semantics).into_iter().chain(subject.notes.iter().cloned()).collect(),
        command: asked.command.clone(),
    }
}

/// Tries what a candidate's values can show.
fn detected(comparison: &Comparison<'_>, layers: &Range<usize>, watch: &mut Watcher<'_>) -> Result<Detection, Failure> {
    watch(Progress::Begins { what: "trying what can be shown", steps: 0 });
    let detection = detect(comparison, layers, |left| {
        watch(Progress::Left(left));
        watch(Progress::Step);
    })?;
    watch(Progress::Ends);
    Ok(detection)
}

/// Judges the decoded tokens.
fn decode(subject: &Subject<'_>, watch: &mut Watcher<'_>) -> Result<Decoded, Failure> {
    let Compared { candidate, steps, .. } = subject.comparison.compared;
    let reference = subject.comparison.model()?;
    let passes: Vec<usize> = steps.iter().map(Vec::len).collect();
    let mut choices = Choices::of(candidate, reference.config(), &passes)?;
    let tokens = (&subject.prompt.tokens[..], &subject.prompt.decoded[..]);
    watch(Progress::Begins { what: "verifying the decode", steps: 1 + MEMBERS });
    let is_first = |position: usize| is_first(&subject.comparison.compared, tokens, position);
    let contract = subject.comparison.contract;
    let decoded = judge_decoded(&reference, tokens, contract, &mut choices, is_first, || watch(Progress::Step))?;
    watch(Progress::Ends);
    Ok(decoded)
}

/// Whether the token at a position of what was decoded is first in the candidate's logits, alone or with others; `None` where it
/// does not show them.
fn is_first(
    compared: &Compared<'_>,
    (prompt, decoded): (&[u32], &[u32]),
    position: usize,
) -> Result<Option<bool>, Failure> {
    let Compared { candidate, config, steps, media, .. } = *compared;
    let (mut step, mut row) = (0, prompt.len() - 1 + position);
    while steps.get(step).is_some_and(|tokens| tokens.len() <= row) {
        row -= steps[step].len();
        step += 1;
    }
    if step == steps.len() {
        return Ok(None);
    }
    let loaded = Loaded::new(candidate, config, step, extent(steps, media, step));
    let Some(site) = [Site::Logits, Site::LmHead].into_iter().find(|site| loaded.has(*site)) else { return Ok(None) };
    let place = match loaded.shown(site)? {
        Some(shown) => shown.iter().position(|token| *token == row),
        None => Some(row),
    };
    let Some(place) = place else { return Ok(None) };
    let values = loaded.value(site)?;
    let largest = values.row(place).fold(f64::NEG_INFINITY, |most, logit| most.max(*logit));
    Ok(values.row(place).get(decoded[position] as usize).map(|logit| *logit >= largest))
}
