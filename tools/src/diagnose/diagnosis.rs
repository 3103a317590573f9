//! Which mistakes make a candidate what it is, one fault after the other.
//!
//! The first fault under the local lens says which operators may be at fault. Each known mistake that touches them is
//! assumed in turn, and the reference computes that layer again as the mistake would; what brings the candidate within its
//! bounds explains it. Where none does, or none that reproduces as many values as a right candidate has of its twin's, weights
//! are searched and parameters fitted. Then everything is verified again under what was found, so that a second mistake shows,
//! too; and where no fault is left, what is suspicious is explained in the same way. Where there is nothing of either, the other
//! lenses are asked, which see what operators add up to. A precision that was found in values with a mistake is found again under
//! the first that explains one, and if it is another, all begins anew.

use fixtures::names::at::At;
use reference::{LayerSite, Semantics, Site};
use serde::Serialize;

use super::catalogue::assumption::Assumption;
use super::catalogue::fit::Fitted;
use super::catalogue::mistake::{Assumed, Change};
use super::catalogue::operator::in_any_layer;
use super::catalogue::tensors::TensorChange;
use super::catalogue::weights::WeightChange;
use super::search::{self, Bench, Told, kinds};
use super::share::Share;
use super::trial::{Tried, at, faults};
use super::{chosen, elsewhere, pattern, sizes};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::judging::Kept;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

/// Mistakes that are looked for, one behind the other.
const MISTAKES: usize = 4;

/// Operators whose faults nothing explains, after which none is looked at any more.
const UNEXPLAINED: usize = 2;

/// A mistake that explains a fault.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// The fault, as it was found.
    pub fault: Box<SiteReport>,
    /// Which of the fault's tokens, heads and channels are off, a sentence each.
    pub off: Vec<String>,
    /// The mistake's name.
    pub name: &'static str,
    /// How it is made.
    pub way: String,
    /// What it does.
    pub about: &'static str,
    /// What is right.
    pub right: &'static str,
    /// Layers of which more is right under it; none where the fault is in no layer.
    pub layers: Vec<usize>,
    /// Whether it is assumed in these layers alone, as it does not hold in others.
    pub is_local: bool,
    /// The parameter that it changes, as values have it.
    pub fitted: Option<Fitted>,
    /// Values at the fault's site that are those of the candidate's twin, in all passes: without the mistake, and with it.
    pub reproduced: Option<[Share; 2]>,
    /// Other mistakes that explain as much.
    pub equivalent: Vec<String>,
    /// Comparisons of the layer within their bounds under the mistake, of so many.
    pub fits: (usize, usize),
    /// Faults in all that it leaves; where there was none, suspicious sites.
    pub left: usize,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// The mistakes, in the order in which their faults arise.
    pub explained: Vec<Explained>,
    /// The first fault that no known mistake explains.
    pub unexplained: Option<Box<SiteReport>>,
    /// Faults that are left in all.
    pub left: usize,
    /// What can be said of the first of them, a sentence each.
    pub pattern: Vec<String>,
    /// What its values, or those of the first suspicious site, say was done there, where an operator's equation has a solution
    /// that says so.
    pub solved: Vec<String>,
    /// Where no fault is left, sites that are suspicious, and that nothing explains.
    pub suspicious: Vec<SiteReport>,
    /// Comparisons under the mistakes that say something.
    pub conclusive: usize,
    /// The reading of the documents under the mistakes.
    #[serde(serialize_with = "as_text")]
    pub semantics: Semantics,
}

impl Diagnosis {
    /// Whether there is nothing to explain.
    pub fn is_right(&self) -> bool {
        self.explained.is_empty() && self.unexplained.is_none() && self.suspicious.is_empty()
    }
}

/// A fault as it was measured, not only judged.
pub(super) struct Measured {
    pub(super) report: SiteReport,
    /// Its values.
    pub(super) kept: Option<Kept>,
}

/// Finds the mistakes; `progress` is told, before each that is tried, how many of this round are left.
pub fn diagnose(comparison: &Comparison<'_>, mut progress: impl FnMut(usize)) -> Result<Diagnosis, Failure> {
    let mut assumption = Assumption::none(comparison.compared.semantics);
    let mut explained = Vec::new();
    for assumed in comparison.of_other_sizes() {
        let after = assumption.and(assumed.clone())?;
        let reports = comparison.verdicts(&after, comparison.all())?;
        let fault = sizes::fault(comparison.compared.config, &assumed);
        explained.push(Explained { left: faults(&reports).len(), ..Explained::of(fault, &assumed) });
        assumption = after;
    }
    let mut reports = comparison.verdicts(&assumption, comparison.all())?;
    if let Some(captured) = comparison.captured(&assumption, &reports)?
        && !comparison.is_known(&assumption, &reports, captured.explained.left, &mut progress)?
    {
        explained.push(captured.explained);
        (assumption, reports) = (captured.assumption, captured.reports);
    }
    // What nothing explains in one layer tells nothing of other operators in others, unless the same is at fault before them there.
    let mut unexplained: Vec<Site> = Vec::new();
    while explained.len() < MISTAKES && unexplained.len() < UNEXPLAINED {
        let all = faults(&reports);
        let is_alike = |site: Site| unexplained.iter().any(|other| in_any_layer(*other) == in_any_layer(site));
        let is_behind = |fault: &SiteReport| {
            let of_layer = |other: &SiteReport| (other.step, other.site.layer()) == (fault.step, fault.site.layer());
            all.iter().any(|other| of_layer(other) && other.site <= fault.site && is_alike(other.site))
        };
        let is_same = |fault: &SiteReport| unexplained.iter().any(|other| other.layer() == fault.site.layer());
        let Some(first) = all.iter().copied().find(|fault| !is_same(fault) && !is_behind(fault)) else { break };
        let measured = comparison.measured(&assumption, first)?;
        let Some((mistakes, under)) = comparison.explain(&assumption, &measured, &reports, &mut progress)? else {
            unexplained.push(measured.report.site);
            continue;
        };
        if explained.is_empty()
            && let Some(contract) = comparison.refound(&under.assumption)?
        {
            return diagnose(&Comparison::new(comparison.compared, contract), progress);
        }
        explained.extend(mistakes);
        assumption = under.assumption;
        reports = under.reports;
    }
    let left = faults(&reports);
    let mut suspicious = if left.is_empty() { comparison.suspicious(&assumption, &reports)? } else { Vec::new() };
    while explained.len() < MISTAKES
        && let Some(first) = suspicious.first().cloned()
    {
        let Some((mistakes, under)) = comparison.explain_quiet(&assumption, &first, &suspicious, &mut progress)? else {
            break;
        };
        explained.extend(mistakes);
        assumption = under.assumption;
        suspicious = under.reports;
    }
    let unexplained = left.first().map(|first| comparison.measured(&assumption, first)).transpose()?;
    let pattern = unexplained.as_ref().map(|measured| comparison.pattern(measured)).unwrap_or_default();
    let solved = comparison.solved(&assumption, &left, &suspicious)?;
    let conclusive = conclusive(&reports);
    let diagnosis = Diagnosis {
        conclusive,
        suspicious,
        explained,
        unexplained: unexplained.map(|measured| Box::new(measured.report)),
        left: left.len(),
        pattern,
        solved,
        semantics: assumption.semantics,
    };
    if !diagnosis.is_right() {
        return Ok(diagnosis);
    }
    let (added_up, suspicious) = comparison.added_up()?;
    let (left, unexplained) = (added_up.len(), added_up.into_iter().next().map(Box::new));
    Ok(Diagnosis { unexplained, left, suspicious, ..diagnosis })
}

/// What the values say was done at the first fault, or else at the first suspicious site, before anything known is tried.
pub fn solved(comparison: &Comparison<'_>) -> Result<Vec<String>, Failure> {
    let assumption = Assumption::none(comparison.compared.semantics);
    let reports = comparison.verdicts(&assumption, comparison.all())?;
    let left = faults(&reports);
    let suspicious = if left.is_empty() { comparison.suspicious(&assumption, &reports)? } else { Vec::new() };
    comparison.solved(&assumption, &left, &suspicious)
}

/// What is said of a request whose padding is read as tokens, where then nothing is wrong: its mask was ignored. `fault` is the
/// first where it is not.
pub fn of_seen_padding(padded: &Comparison<'_>, fault: SiteReport) -> Result<Option<Diagnosis>, Failure> {
    let semantics = padded.compared.semantics;
    let reports = padded.verdicts(&Assumption::none(semantics), padded.all())?;
    if !faults(&reports).is_empty() {
        return Ok(None);
    }
    let seen = Assumed::everywhere(&kinds::PADDING, Change::Padding);
    let explained = Explained {
        layers: padded.all().collect(),
        fits: (reports.len(), reports.len()),
        ..Explained::of(fault, &seen)
    };
    Ok(Some(Diagnosis {
        conclusive: conclusive(&reports),
        explained: vec![explained],
        unexplained: None,
        left: 0,
        pattern: Vec::new(),
        solved: Vec::new(),
        suspicious: Vec::new(),
        semantics,
    }))
}

fn conclusive(reports: &[SiteReport]) -> usize {
    reports.iter().filter(|report| report.verdict != Verdict::Inconclusive).count()
}

/// Whether two changes are the same, a factor's by whatever number.
fn is_of_same(one: &Assumed, other: &Assumed) -> bool {
    match (&one.change, &other.change) {
        (
            Change::Weights(WeightChange::Tensor(TensorChange::Scaled(a))),
            Change::Weights(WeightChange::Tensor(TensorChange::Scaled(b))),
        ) => (a.of, &a.part, &one.layers) == (b.of, &b.part, &other.layers),
        _ => one.to_string() == other.to_string(),
    }
}

/// The first fault that has values: of a choice, what follows from it in its layer.
fn with_values<'r>(left: &[&'r SiteReport]) -> Option<&'r SiteReport> {
    let first = left.first()?;
    left.iter().copied().find(|fault| fault.site.layer() == first.site.layer() && !fault.site.is_choice())
}

impl Explained {
    /// A mistake that explains a fault, of which nothing else is known yet.
    pub(super) fn of(fault: SiteReport, assumed: &Assumed) -> Self {
        Explained {
            fault: Box::new(fault),
            off: Vec::new(),
            name: assumed.mistake.name,
            way: assumed.way(),
            about: assumed.mistake.about,
            right: assumed.mistake.right,
            layers: Vec::new(),
            is_local: assumed.layers.is_some(),
            fitted: None,
            reproduced: None,
            equivalent: Vec::new(),
            fits: (0, 0),
            left: 0,
        }
    }

    /// One of those that were assumed together, by its place among them, as it was tried beside others that are as good. Of those
    /// that differ in one place alone, what stands there is told.
    pub(super) fn tried(
        fault: &SiteReport,
        (place, assumed): (usize, &Assumed),
        tried: &Tried,
        others: &[Tried],
    ) -> Self {
        let lacks = |all: &[Assumed], one: &Assumed| all.len() < 2 || all.iter().all(|own| !is_of_same(own, one));
        let name = |other: &Tried| {
            let more: Vec<&Assumed> = other.added.iter().filter(|one| lacks(&tried.added, one)).collect();
            match more[..] {
                [] => None,
                [one] => lacks(&other.added, &tried.added[place]).then(|| one.to_string()),
                _ => Some(other.added.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")),
            }
        };
        Explained {
            layers: tried.layers.clone(),
            reproduced: Some(tried.reproduced),
            equivalent: others.iter().filter_map(name).collect(),
            fits: tried.fits,
            left: tried.left,
            ..Explained::of(fault.clone(), assumed)
        }
    }
}

impl Comparison<'_> {
    /// A fault with the noise that it is beyond, where it is judged by that, and its values.
    fn measured(&self, assumption: &Assumption, fault: &SiteReport) -> Result<Measured, Failure> {
        let keep = At { step: fault.step, site: fault.site };
        let found = self.verify(assumption, self.around(fault.site), Some(keep))?;
        let report = found.sites.into_iter().find(|report| at(report) == at(fault));
        Ok(Measured { report: report.unwrap_or_else(|| fault.clone()), kept: found.kept })
    }

    /// Faults that lenses see which follow the reference's own values, of a candidate in which the local lens sees none; where there is
    /// none, what is suspicious.
    fn added_up(&self) -> Result<(Vec<SiteReport>, Vec<SiteReport>), Failure> {
        let model = self.model()?;
        let found = self.verification(&model, &Lens::ALL, self.all()).verdicts()?;
        let mut added_up = faults(&found.sites);
        added_up.sort_by_key(|report| report.lens);
        let added_up: Vec<SiteReport> = added_up.into_iter().cloned().collect();
        let suspicious =
            found.sites.iter().filter(|report| added_up.is_empty() && report.verdict == Verdict::Suspicious);
        let suspicious = suspicious.cloned().collect();
        Ok((added_up, suspicious))
    }

    /// Whether a known mistake explains the first fault, and leaves no more faults than so many.
    fn is_known(
        &self,
        assumption: &Assumption,
        reports: &[SiteReport],
        left: usize,
        progress: &mut impl FnMut(usize),
    ) -> Result<bool, Failure> {
        let all = faults(reports);
        let Some(first) = all.first() else { return Ok(false) };
        let measured = self.measured(assumption, first)?;
        let found = self.explain(assumption, &measured, reports, progress)?;
        Ok(found.is_some_and(|(_, tried)| {
            tried.left <= left && tried.added.iter().all(|assumed| !assumed.mistake.is_searched())
        }))
    }

    /// The pattern of a fault.
    fn pattern(&self, fault: &Measured) -> Vec<String> {
        let Measured { report, kept } = fault;
        let (config, extent) = (self.compared.config, self.extent(report.step));
        kept.as_ref().map(|kept| pattern::describe(kept, report.site, config, extent)).unwrap_or_default()
    }

    /// What the values say was done at the first fault, or where there is none, at the first suspicious site.
    fn solved(
        &self,
        assumption: &Assumption,
        left: &[&SiteReport],
        suspicious: &[SiteReport],
    ) -> Result<Vec<String>, Failure> {
        let Some(site) = with_values(left).or(left.first().copied()).or(suspicious.first()) else {
            return Ok(Vec::new());
        };
        let choice = choice_of(left);
        let at = choice.map(|choice| At { step: choice.step, site: choice.site });
        let of_choice = at.map_or(Ok(None), |at| chosen::describe(self, assumption, at))?;
        let bench = Bench::described(self, assumption, site)?;
        // Behind a choice that is off, what reproduces no values may follow from it.
        let told = if choice.is_some() { Told::Reproducing } else { Told::All };
        let mut said = bench.map_or_else(|| Ok(Vec::new()), |bench| search::describe(&bench, told))?;
        let others: Vec<&SiteReport> = if left.is_empty() { suspicious.iter().collect() } else { left.to_vec() };
        said.extend(elsewhere::describe(self, assumption, (site.site, &said), &others)?);
        said.splice(0..0, of_choice);
        Ok(said)
    }
}

/// The choice that is off at the first of what is left, or behind it: where the right experts were chosen by chance, their weights are
/// off before a choice is.
fn choice_of<'r>(left: &[&'r SiteReport]) -> Option<&'r SiteReport> {
    let first = left.first()?;
    let behind = match first.site {
        Site::Layer(layer, LayerSite::GateWeights) => Site::Layer(layer, LayerSite::GateExperts),
        site => site,
    };
    left.iter().find(|report| report.site == behind && report.site.is_choice()).copied()
}

fn as_text<S: serde::Serializer>(value: &Semantics, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
