//! Which known mistake makes a candidate what it is.
//!
//! The first fault under the local lens says which operators may be at fault. Each known mistake that touches them is
//! assumed in turn, and the reference computes that layer again as the mistake would; what brings the candidate within its
//! bounds is the answer. Then everything is verified again under it, so that a second mistake shows, too.

use std::ops::Range;

use reference::config::Config;
use reference::site::Extent;
use reference::{LayerSite, Semantics, Site};
use serde::Serialize;

use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::catalogue::list;
use crate::diagnose::catalogue::mistake::{Assumed, Change, Clue};
use crate::diagnose::{pattern, sizes};
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::judging::Kept;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::judge::verification::{Found, Verification, extent};
use fixtures::names::at::At;

/// Mistakes that are looked for, one behind the other.
const MISTAKES: usize = 4;

/// Mistakes that come nearest alone, each of which is tried with every other where none fits alone.
const PAIRED: usize = 4;

/// A mistake that explains a fault.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// The fault, as it was found.
    pub fault: Box<SiteReport>,
    /// The mistake's name.
    pub name: &'static str,
    /// How it is made.
    pub way: String,
    /// What it does.
    pub about: &'static str,
    /// What is right.
    pub right: &'static str,
    /// Other mistakes that explain as much.
    pub equivalent: Vec<String>,
    /// Comparisons of the layer within their bounds under the mistake, of so many.
    pub fits: (usize, usize),
    /// Faults in all that it leaves.
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
    /// Where there is no fault, sites that are suspicious.
    pub suspicious: Vec<SiteReport>,
    /// The reading of the documents under the mistakes.
    #[serde(serialize_with = "as_text")]
    pub semantics: Semantics,
}

/// How much is asked of a comparison.
#[derive(Debug, Clone, Copy)]
enum Depth {
    /// The verdicts.
    Verdicts,
    /// Noise, too, where a value is beyond any.
    Noise,
    /// The twin beside it.
    Twin,
}

/// A mistake that was tried, and what it leaves.
struct Tried {
    assumption: Assumption,
    reports: Vec<SiteReport>,
    fits: (usize, usize),
}

/// Finds the mistakes; `progress` is told, before each that is tried, how many of this round are left.
pub fn diagnose(comparison: &Comparison<'_>, mut progress: impl FnMut(usize)) -> Result<Diagnosis, Failure> {
    let mut assumption = Assumption::none(comparison.compared.semantics);
    let mut explained = Vec::new();
    for assumed in comparison.of_other_sizes() {
        let after = assumption.and(assumed.clone())?;
        let reports = comparison.verify(&after, comparison.all(), None)?.sites;
        explained.push(told(
            size_fault(comparison.compared.config, &assumed),
            &assumed,
            &[],
            (0, 0),
            faults(&reports).len(),
        ));
        assumption = after;
    }
    let mut reports = comparison.verify(&assumption, comparison.all(), None)?.sites;
    while explained.len() < MISTAKES {
        let Some(first) = faults(&reports).first().map(|fault| (*fault).clone()) else { break };
        let Some((mistakes, under)) = comparison.explain(&assumption, &first, &reports, &mut progress)? else { break };
        explained.extend(mistakes);
        assumption = under.assumption;
        reports = under.reports;
    }
    let left = faults(&reports);
    let pattern = match left.first() {
        Some(first) => comparison.pattern(&assumption, first)?,
        None => Vec::new(),
    };
    let is_right = explained.is_empty() && left.is_empty();
    let suspicious = if is_right { comparison.suspicious(&assumption)? } else { Vec::new() };
    Ok(Diagnosis {
        suspicious,
        explained,
        unexplained: left.first().map(|fault| Box::new((*fault).clone())),
        left: left.len(),
        pattern,
        semantics: assumption.semantics,
    })
}

/// The faults, in the order in which a token meets them.
fn faults(reports: &[SiteReport]) -> Vec<&SiteReport> {
    let mut faults: Vec<&SiteReport> = reports.iter().filter(|report| report.verdict == Verdict::Fault).collect();
    faults.sort_by_key(|report| (report.step, report.site));
    faults
}

fn told(fault: SiteReport, assumed: &Assumed, others: &[&Tried], fits: (usize, usize), left: usize) -> Explained {
    let name = |tried: &&Tried| tried.assumption.mistakes.last().map(ToString::to_string);
    Explained {
        fault: Box::new(fault),
        name: assumed.mistake.name,
        way: assumed.change.to_string(),
        about: assumed.mistake.about,
        right: assumed.mistake.right,
        equivalent: others.iter().filter_map(name).collect(),
        fits,
        left,
    }
}

impl Comparison<'_> {
    /// The model with its sizes under an assumption, judged by the local lens.
    fn verify(&self, assumption: &Assumption, layers: Range<usize>, keep: Option<At>) -> Result<Found, Failure> {
        self.put_next_to(assumption, layers, keep, Depth::Noise)
    }

    /// The sites that are suspicious by their values, or by the structure of what is not the twin's.
    fn suspicious(&self, assumption: &Assumption) -> Result<Vec<SiteReport>, Failure> {
        let mut reports = self.put_next_to(assumption, self.all(), None, Depth::Twin)?.sites;
        reports.retain(|report| report.verdict == Verdict::Suspicious);
        Ok(reports)
    }

    /// The verdicts on some layers under an assumption.
    fn verdicts(&self, assumption: &Assumption, layers: Range<usize>) -> Result<Vec<SiteReport>, Failure> {
        Ok(self.put_next_to(assumption, layers, None, Depth::Verdicts)?.sites)
    }

    fn put_next_to(
        &self,
        assumption: &Assumption,
        layers: Range<usize>,
        keep: Option<At>,
        depth: Depth,
    ) -> Result<Found, Failure> {
        let Compared { config, media, candidate, steps, prompt, .. } = self.compared;
        let weights = assumption.weights(config, &self.weights);
        let model = assumption.model(config, &weights)?.seeing(media);
        let candidate = candidate.under(model.config());
        let (contract, lenses) = (self.contract, &[Lens::Local]);
        let candidate = &*candidate;
        let verification = Verification { model: &model, candidate, contract, steps, prompt, lenses, layers, keep };
        match depth {
            Depth::Verdicts => verification.verdicts(),
            Depth::Noise => verification.without_twin(),
            Depth::Twin => verification.run(|| ()),
        }
    }

    fn all(&self) -> Range<usize> {
        0..self.compared.config.num_hidden_layers
    }

    /// Mistakes that the sizes of what the candidate shows give away.
    fn of_other_sizes(&self) -> Vec<Assumed> {
        let own = sizes::of_model(self, &self.compared.semantics);
        let shown = sizes::of_candidate(self, &self.compared.semantics);
        let differs = shown.into_iter().filter(|size| !own.contains(size));
        let named = differs.filter_map(|(field, found)| {
            let change = Change::Reading(field, found);
            list::all()
                .flat_map(|mistake| mistake.cases(self.compared.config, Clue::default()))
                .find(|assumed| assumed.change == change)
        });
        named.collect()
    }

    /// Whether a mistake makes values of other sizes than the candidate shows.
    fn contradicts(&self, before: &Assumption, assumed: &Assumed) -> bool {
        let under = before.and(assumed.clone()).map(|assumption| assumption.semantics);
        under.is_ok_and(|semantics| {
            let own = sizes::of_model(self, &semantics);
            sizes::of_candidate(self, &semantics).iter().any(|size| !own.contains(size))
        })
    }

    /// The mistake that explains a fault best, or the two that do together, if any does: what leaves the fewest faults in
    /// all, and of these what is nearest.
    fn explain(
        &self,
        before: &Assumption,
        first: &SiteReport,
        reports: &[SiteReport],
        progress: &mut impl FnMut(usize),
    ) -> Result<Option<(Vec<Explained>, Tried)>, Failure> {
        let kept = self.kept(before, first)?;
        let token = kept
            .and_then(|kept| pattern::first_token(&kept, first.site, self.compared.config, self.extent(first.step)));
        let position = token.unwrap_or(0);
        let passed: usize = self.compared.steps[..first.step].iter().map(Vec::len).sum();
        let clue = Clue { position: passed + position };
        let suspects: Vec<Site> = first.segment.iter().copied().chain([first.site]).collect();
        let touching = list::all().filter(|mistake| mistake.touches(&suspects));
        let possible = touching.flat_map(|mistake| mistake.cases(self.compared.config, clue));
        let possible = possible.filter(|assumed| !assumed.change.is_in(&before.semantics));
        let possible: Vec<Assumed> = possible.filter(|assumed| !self.contradicts(before, assumed)).collect();
        let mut tried = Vec::new();
        let mut near: Vec<(f64, &Assumed)> = Vec::new();
        for (i, assumed) in possible.iter().enumerate() {
            progress(possible.len() - i);
            let (fitting, far) = self.attempt(before.and(assumed.clone())?, first, reports)?;
            tried.extend(fitting);
            near.push((far, assumed));
        }
        if tried.is_empty() {
            near.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let pairs: Vec<(&Assumed, &Assumed)> = pairs(&near).collect();
            for (i, (one, other)) in pairs.iter().enumerate() {
                progress(pairs.len() - i);
                let both = before.and((*one).clone())?.and((*other).clone())?;
                tried.extend(self.attempt(both, first, reports)?.0);
            }
        }
        tried.sort_by(|a, b| {
            let left = |tried: &Tried| faults(&tried.reports).len();
            let far = |tried: &Tried| deviation(first, &tried.reports);
            left(a).cmp(&left(b)).then(far(a).total_cmp(&far(b)))
        });
        let mut tried = tried.into_iter();
        let Some(mut best) = tried.next() else { return Ok(None) };
        let left = faults(&best.reports).len();
        let others: Vec<Tried> = tried.filter(|other| faults(&other.reports).len() == left).collect();
        let others: Vec<&Tried> = others.iter().collect();
        let assumed = &best.assumption.mistakes[before.mistakes.len()..];
        let explained = assumed.iter().map(|assumed| told(first.clone(), assumed, &others, best.fits, left));
        let explained = explained.collect();
        // Where no fault is left, nothing was beyond any noise, and the verdicts are the whole reports.
        if left > 0 {
            best.reports = self.verify(&best.assumption, self.all(), None)?.sites;
        }
        Ok(Some((explained, best)))
    }

    /// What an assumption leaves, if a fault is gone under it, and how far the candidate is from it there.
    fn attempt(
        &self,
        assumption: Assumption,
        fault: &SiteReport,
        before: &[SiteReport],
    ) -> Result<(Option<Tried>, f64), Failure> {
        let found = self.verdicts(&assumption, self.around(fault.site))?;
        let far = deviation(fault, &found);
        if !fits(fault, &found, before) {
            return Ok((None, far));
        }
        let right = found.iter().filter(|report| report.verdict != Verdict::Fault).count();
        let reports = self.verdicts(&assumption, self.all())?;
        Ok((Some(Tried { assumption, reports, fits: (right, found.len()) }), far))
    }

    /// The layers that have to be run to see a site.
    fn around(&self, site: Site) -> Range<usize> {
        let layers = self.compared.config.num_hidden_layers;
        match site {
            Site::Layer(layer, _) => layer..layer + 1,
            Site::Vision(..) | Site::Embedding | Site::InputsEmbeds | Site::RopeCos | Site::RopeSin => 0..1,
            Site::FinalNorm | Site::LmHead | Site::Logits => layers - 1..layers,
        }
    }

    fn pattern(&self, assumption: &Assumption, fault: &SiteReport) -> Result<Vec<String>, Failure> {
        let kept = self.kept(assumption, fault)?;
        let extent = self.extent(fault.step);
        Ok(kept.map(|kept| pattern::describe(&kept, fault.site, self.compared.config, extent)).unwrap_or_default())
    }

    /// The values at a fault.
    fn kept(&self, assumption: &Assumption, fault: &SiteReport) -> Result<Option<Kept>, Failure> {
        let at = At { step: fault.step, site: fault.site };
        Ok(self.verify(assumption, self.around(fault.site), Some(at))?.kept)
    }

    fn extent(&self, step: usize) -> Extent {
        extent(self.compared.steps, self.compared.media, step)
    }
}

/// The fault of a candidate of another size: a comparison that could not be made.
fn size_fault(config: &Config, assumed: &Assumed) -> SiteReport {
    let site = match &assumed.change {
        Change::Reading("top_k", _) => sizes::first(config, LayerSite::GateExperts),
        Change::Reading("msa_top_k" | "msa_select", _) => sizes::first(config, LayerSite::Blocks),
        _ => Site::RopeCos,
    };
    let mut fault = SiteReport::missing(0, site, Lens::Local);
    (fault.verdict, fault.note) = (Verdict::Fault, Some("it has another shape".into()));
    fault
}

/// Mistakes that come near, each with all others but those that change the same.
fn pairs<'a>(near: &[(f64, &'a Assumed)]) -> impl Iterator<Item = (&'a Assumed, &'a Assumed)> {
    let same = |a: &Assumed, b: &Assumed| match (&a.change, &b.change) {
        (Change::Reading(a, _), Change::Reading(b, _)) => a == b,
        (a, b) => a == b,
    };
    let all = near.iter().enumerate().take(PAIRED);
    let others = all.flat_map(|(i, (_, one))| near[i + 1..].iter().map(move |(_, other)| (*one, *other)));
    others.filter(move |(one, other)| !same(one, other))
}

/// Whether a fault is gone, and no other came in its place.
fn fits(fault: &SiteReport, under: &[SiteReport], before: &[SiteReport]) -> bool {
    let same = |report: &&SiteReport| (report.step, report.site) == (fault.step, fault.site);
    let was = |report: &SiteReport| {
        let now = (report.step, report.site);
        before.iter().any(|b| (b.step, b.site) == now && b.verdict == Verdict::Fault)
    };
    let gone = under.iter().filter(same).all(|report| report.verdict != Verdict::Fault);
    let mut new = under.iter().filter(|report| report.verdict == Verdict::Fault && !was(report));
    gone && under.iter().any(|report| same(&report)) && new.next().is_none()
}

fn deviation(fault: &SiteReport, reports: &[SiteReport]) -> f64 {
    let same = reports.iter().filter(|report| (report.step, report.site) == (fault.step, fault.site));
    same.map(|report| report.deviation).sum()
}

fn as_text<S: serde::Serializer>(value: &Semantics, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
