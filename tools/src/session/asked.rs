//! What is asked of a comparison, and the report that answers it.

use std::ops::Range;

use reference::config::Config;

use super::model::Model;
use super::need;
use super::outline::{OfRequest, Outline};
use super::part::Part;
use super::progress::{Progress, Watcher, read_of};
use super::prompt::Prompt;
use super::tokens::judge_tokens;
use super::units::{self, Kind, Unit, Whole};
use super::work::{self, Item, layer_of};
use crate::compare::selection::Selection;
use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::detection::{Detection, detect};
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::exact::Bits;
use crate::judge::found::Found;
use crate::judge::lens::Lens;
use crate::report::content::{Header, Report};
use crate::report::coverage::operators;
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
    /// The command that asks it, or a call in Python, without what restricts it to a part.
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
    /// Why nothing can be concluded, though no comparison finds a fault.
    pub(super) unsure: Option<String>,
    /// How many of its tensors have names that nobody knows.
    pub(super) unread: usize,
    /// The prompt, and what the candidate decoded after it.
    pub(super) prompt: &'a Prompt,
    /// Whether the candidate's passes begin at the first position.
    pub(super) whole: bool,
    /// Of the CUDA path, whether it ran on the emulated device, where functions are known to the last bit.
    pub(super) emulated: Option<bool>,
}

/// What is asked of candidates of a model, one a request.
pub(super) struct Asking<'a> {
    model: &'a Model,
    config: &'a Config,
    subjects: &'a [Subject<'a>],
    asked: &'a Asked,
    comparisons: Vec<Comparison<'a>>,
    /// The lenses, each once.
    pub(super) lenses: Vec<Lens>,
    layers: Range<usize>,
}

/// Reports on candidates of a model, one a request.
pub(super) fn reports(
    model: &Model,
    subjects: &[Subject<'_>],
    asked: &Asked,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    let asking = Asking::new(model, subjects, asked);
    let outline = asking.outline()?;
    outline.reports(asking.parts(watch)?)
}

impl<'a> Asking<'a> {
    pub(super) fn new(model: &'a Model, subjects: &'a [Subject<'a>], asked: &'a Asked) -> Self {
        let comparisons = subjects.iter().map(|subject| subject.comparison).collect();
        let is_asked = |lens: &Lens| asked.lenses.is_empty() || asked.lenses.contains(lens);
        let lenses = Lens::ALL.into_iter().filter(is_asked).collect();
        // Requests are of one model, or of one of its modules.
        let config = subjects.first().map_or(model.checkpoint.config(), |subject| subject.comparison.compared.config);
        let layers = asked.selection.layers(config.num_hidden_layers);
        Asking { model, config, subjects, asked, comparisons, lenses, layers }
    }

    /// What the reports say beside what is found. Refused, if what is demanded is of no operator.
    pub(super) fn outline(&self) -> Result<Outline, Failure> {
        let outline = Outline {
            requests: self.subjects.iter().map(|subject| self.of_request(subject)).collect(),
            selection: self.asked.selection.clone(),
            demands: self.asked.demands.clone(),
        };
        outline.requests.iter().try_for_each(|request| outline.demands.require_possible(&request.operators))?;
        Ok(outline)
    }

    fn of_request(&self, subject: &Subject<'_>) -> OfRequest {
        let config = self.config.under(&subject.comparison.compared.semantics);
        let header = header(self.model, subject, self.asked);
        let operators = operators(&config, header.shown.len());
        OfRequest { header, operators, binding: subject.emulated.unwrap_or(false) }
    }

    /// What is to be done, unit by unit.
    pub(super) fn units(&self) -> Result<Vec<Unit>, Failure> {
        units::list(&self.comparisons, &self.layers, &self.lenses, |request| self.whole(request))
    }

    /// What units cost, by an estimate.
    pub(super) fn costs(&self, units: &[Unit]) -> Vec<u64> {
        units::costs(units, &self.lenses, self.config)
    }

    /// The anonymous memory that all units need, those of lenses in as few runs as do them, by an estimate.
    pub(super) fn need(&self, units: &[Unit]) -> Result<u64, Failure> {
        let of_lenses = self.comparisons.iter().map(|of| need::of_lenses(of, &self.lenses, &self.layers));
        let others = units.iter().filter(|unit| matches!(unit.kind, Kind::Decode | Kind::Coverage));
        let needs: Vec<u64> = of_lenses.chain(others.map(|unit| self.need_of(unit))).collect::<Result<_, _>>()?;
        Ok(needs.into_iter().max().unwrap_or(0))
    }

    /// The same of a unit.
    pub(super) fn need_of(&self, unit: &Unit) -> Result<u64, Failure> {
        need::of_unit(unit, &self.lenses, &self.comparisons[unit.request])
    }

    /// What is found in a unit.
    pub(super) fn part(&self, unit: &Unit, watch: &mut Watcher<'_>) -> Result<Part, Failure> {
        let subject = &self.subjects[unit.request];
        Ok(match unit.kind {
            Kind::Layers | Kind::Global => {
                let items = unit.items(&self.lenses);
                let found = self.execute(&items, watch)?.swap_remove(unit.request);
                let exact = if unit.kind == Kind::Layers { self.exact(subject, &unit.layers, watch)? } else { None };
                Part::Lenses { found: Box::new(found), exact }
            }
            Kind::Decode => Part::Decode(judge_tokens(&subject.comparison, subject.prompt, watch)?),
            Kind::Coverage => Part::Coverage(detected(&subject.comparison, &self.layers, watch)?),
        })
    }

    /// All that is found, of each request, in as few runs as find it.
    pub(super) fn parts(&self, watch: &mut Watcher<'_>) -> Result<Vec<(usize, Part)>, Failure> {
        let items = work::list(&self.comparisons, &self.layers, &self.lenses)?;
        let mut parts = Vec::new();
        for (request, (subject, found)) in self.subjects.iter().zip(self.execute(&items, watch)?).enumerate() {
            let exact = self.exact(subject, &self.layers, watch)?;
            parts.push((request, Part::Lenses { found: Box::new(found), exact }));
            let Whole { decode, coverage } = self.whole(request);
            let others = [(Kind::Coverage, coverage), (Kind::Decode, decode)].into_iter().filter(|(_, is)| *is);
            for (kind, _) in others {
                parts.push((request, self.part(&Unit { request, kind, layers: self.layers.clone() }, watch)?));
            }
        }
        Ok(parts)
    }

    fn execute(&self, items: &[Item], watch: &mut Watcher<'_>) -> Result<Vec<Found>, Failure> {
        let what = format!("verifying {}", self.model.name);
        let mut found = work::execute(&self.comparisons, (items, &self.lenses), &what, &mut self.behind(watch))?;
        for (comparison, found) in self.comparisons.iter().zip(&mut found) {
            found.open.displaced = comparison.displaced(&Assumption::none(comparison.compared.semantics), found)?;
        }
        Ok(found)
    }

    /// Gives back pages of weights on the way, and tells how many were read.
    fn behind(&self, watch: &mut Watcher<'_>) -> impl FnMut(Progress<'_>) {
        let checkpoint = &self.model.checkpoint;
        move |told| match told {
            Progress::Place(place) => watch(Progress::Place(&read_of(place, checkpoint))),
            Progress::Step => {
                checkpoint.release_behind();
                watch(Progress::Step);
            }
            told => watch(told),
        }
    }

    /// What is asked of a request as a whole.
    fn whole(&self, request: usize) -> Whole {
        let (subject, Asked { lenses, selection, detection, .. }) = (&self.subjects[request], self.asked);
        let decodes = subject.whole && !subject.prompt.decoded.is_empty();
        Whole { decode: decodes && selection.is_all() && lenses.is_empty(), coverage: *detection }
    }

    /// How the values in some layers stand to those of the candidate's exact twin, if it is the CUDA path's and has one.
    fn exact(
        &self,
        subject: &Subject<'_>,
        layers: &Range<usize>,
        watch: &mut Watcher<'_>,
    ) -> Result<Option<Vec<Bits>>, Failure> {
        if subject.emulated.is_none() || !self.lenses.contains(&Lens::Local) {
            return Ok(None);
        }
        let reference = subject.comparison.model()?;
        let verification = subject.comparison.verification(&reference, &self.lenses, layers.clone());
        let mut behind = self.behind(watch);
        behind(Progress::Begins { what: "summing in the candidate's order", steps: verification.phases() });
        let exact = verification.exactness(false, || behind(Progress::Step))?;
        behind(Progress::Ends);
        let count = reference.config().num_hidden_layers;
        let is_own = |bits: &Bits| layers.contains(&layer_of(bits.site, count));
        Ok(exact.map(|exact| exact.sites.into_iter().filter(is_own).collect()))
    }
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
        unsure: subject.unsure.clone(),
        unread: subject.unread,
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
