//! Puts a candidate next to the reference, under all lenses at once.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use fixtures::names::at::At;
use ndarray::Array2;
use reference::media::Media;
use reference::models::decoder::Decoder;
use reference::probe::Probe;
use reference::run::{Run, Shared};
use reference::site::Extent;
use reference::{LayerSite, RoundingContract, Site};

use crate::failure::Failure;
use crate::judge::agreement::Agreement;
use crate::judge::candidate::{Candidate, Start};
use crate::judge::exact::{ExactTwin, Exactness};
use crate::judge::found::Found;
use crate::judge::judging::Kept;
use crate::judge::lens::Lens;
use crate::judge::loaded::Loaded;
use crate::judge::significance::Significant;
use crate::judge::state::{Pass, Phase, State};
use crate::judge::track::Track;
use crate::judge::twin::Twin;
use crate::judge::verdict::SiteReport;

/// What to verify, and how.
pub struct Verification<'a> {
    /// The reference.
    pub model: &'a Decoder<'a>,
    /// The candidate.
    pub candidate: &'a dyn Candidate,
    /// How the candidate rounds.
    pub contract: RoundingContract,
    /// The tokens of each forward pass.
    pub steps: &'a [Vec<u32>],
    /// Tokens of the prompt. What follows them in the first pass was decoded, and is no place of an image.
    pub prompt: usize,
    /// The lenses, each once.
    pub lenses: &'a [Lens],
    /// The layers; all of them but the last ones mean that neither these nor the head are run.
    pub layers: Range<usize>,
    /// A site whose values are kept as the local lens first sees them.
    pub keep: Option<At>,
}

/// How the local lens looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The sites that are judged; all, if `None`.
    pub(crate) only: Option<BTreeSet<Site>>,
    /// Whether their values are kept.
    pub(crate) values: bool,
    /// Whether the twin is asked.
    pub(crate) twin: bool,
}

/// Advances a run through a phase with a probe.
type Advance<'r> = &'r mut dyn FnMut(&mut dyn Probe<f64>) -> Result<(), Failure>;

/// What is found on the way.
#[derive(Default)]
struct Gathered<'l> {
    found: Found,
    look: Option<&'l Look>,
    values: Vec<(At, Kept)>,
}

/// What the local lens sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inspected {
    /// Every judged site.
    pub(crate) sites: Vec<SiteReport>,
    /// The values of each that has numbers, as they were judged, if they were to be kept.
    pub(crate) values: Vec<(At, Kept)>,
    /// What the twin says, if it was asked.
    pub(crate) significant: Significant,
}

/// Tokens of a forward pass, the positions that they see, and the patches that go through the vision tower before them.
pub fn extent(steps: &[Vec<u32>], media: Option<&Media>, step: usize) -> Extent {
    let first = steps[..step].iter().map(Vec::len).sum::<usize>();
    extent_from(first, steps[step].len(), media)
}

/// The same of a step of so many tokens that begins at a position.
fn extent_from(first: usize, tokens: usize, media: Option<&Media>) -> Extent {
    let patches = media.and_then(|media| media.at(first)).map(Media::patches).unwrap_or_default();
    Extent::new(tokens, first + tokens).seeing(patches)
}

impl Verification<'_> {
    /// Runs; `progress` is told of each phase done, of [`Verification::phases`].
    pub fn run(&self, mut progress: impl FnMut()) -> Result<Found, Failure> {
        Ok(self.part(&[], |_| progress())?.concluded())
    }

    /// Runs for a part of what is found, beside other parts that other lenses find: what those of `beside` tell these lenses is
    /// told them here, too, and nothing is said of what they see themselves.
    pub(crate) fn part(&self, beside: &[Lens], progress: impl FnMut(Phase)) -> Result<Found, Failure> {
        let mut twin = self.lenses.contains(&Lens::Local).then(|| Twin::new(self.model, self.contract));
        let mut found = self.judge((true, beside), twin.as_mut(), None, progress)?.found;
        found.open.tests = twin.map(Twin::tests).unwrap_or_default();
        Ok(found)
    }

    /// Runs without the twin, which changes no verdict.
    pub fn without_twin(&self) -> Result<Found, Failure> {
        Ok(self.judge((true, &[]), None, None, |_| ())?.found.concluded())
    }

    /// Runs for the verdicts alone: noise is not measured where a value is beyond any noise.
    pub fn verdicts(&self) -> Result<Found, Failure> {
        Ok(self.judge((false, &[]), None, None, |_| ())?.found.concluded())
    }

    /// Runs for the verdicts, and for what else is looked at.
    pub(crate) fn inspect(&self, look: &Look) -> Result<Inspected, Failure> {
        let mut twin = look.twin.then(|| Twin::new(self.model, self.contract));
        let Gathered { mut found, values, .. } = self.judge((false, &[]), twin.as_mut(), Some(look), |_| ())?;
        found.open.tests = twin.map(Twin::tests).unwrap_or_default();
        let significant = Significant::of(&found.open.tests);
        Ok(Inspected { sites: found.concluded().sites, values, significant })
    }

    /// How the values at each site stand to those of the candidate's twin, in the order in which a token meets them.
    pub fn agreements(&self) -> Result<Vec<(At, Agreement)>, Failure> {
        self.agreements_beside(0)
    }

    /// The same, where so many runs in other orders predict how many values are others.
    pub(crate) fn agreements_beside(&self, orders: usize) -> Result<Vec<(At, Agreement)>, Failure> {
        let mut twin = Twin::beside(self.model, self.contract, orders);
        let mut agreements = Vec::new();
        self.each_phase(|phase, pass, loaded, stream| {
            if let Some(stream) = stream {
                twin.jump(&stream);
            }
            let of_phase = twin.advance(phase, pass, loaded)?.agreements.into_iter();
            agreements.extend(of_phase.map(|(site, agreement)| (At { step: loaded.step(), site }, agreement)));
            Ok(())
        })?;
        agreements.sort_by_key(|(at, _)| *at);
        Ok(agreements)
    }

    /// How the values at each site stand to those of the candidate's exact twin, `None` where its precision fixes no order of
    /// sums. If `binding`, a difference is a fault. `progress` is told of each phase done, of [`Verification::phases`].
    pub fn exactness(&self, binding: bool, mut progress: impl FnMut()) -> Result<Option<Exactness>, Failure> {
        let Some(mut twin) = ExactTwin::new(self.model, self.contract) else { return Ok(None) };
        let mut sites = Vec::new();
        self.each_phase(|phase, pass, loaded, stream| {
            if let Some(stream) = stream {
                twin.jump(&stream);
            }
            sites.extend(twin.advance(phase, pass, loaded)?);
            progress();
            Ok(())
        })?;
        Ok(Some(Exactness { sites, binding }))
    }

    /// Each phase, with the candidate's residual stream where a run that skipped the layers before goes on from it.
    pub(super) fn each_phase(
        &self,
        mut f: impl FnMut(Phase, Pass<'_>, &Loaded<'_>, Option<Arc<Array2<f64>>>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (start, mut first) = (self.first_layer(), 0);
        for (step, tokens) in self.steps.iter().enumerate() {
            let pass = self.begin(step, first);
            first = pass.start.position;
            for phase in self.pass(step) {
                let loaded = Loaded::new(self.candidate, self.model.config(), step, self.extent(step));
                let begins = phase == Phase::Layer(start) && start > 0;
                let stream = if begins { Some(loaded.value(output_of(start - 1))?) } else { None };
                f(phase, pass, &loaded, stream)?;
            }
            first += tokens.len();
        }
        Ok(())
    }

    /// The same of a run in f64 with the roundings of `contract` that goes on from phase to phase: `f` advances it through one with
    /// a probe of its own.
    pub(super) fn each_advance(
        &self,
        contract: RoundingContract,
        products: Option<Shared<'_, f64>>,
        mut f: impl FnMut(&Loaded<'_>, Advance<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut state = State::<f64>::new(self.model);
        self.each_phase(|phase, pass, loaded, stream| {
            if phase == Phase::Start {
                state.truncate(pass.kept());
            }
            if let Some(stream) = stream {
                state.jump(&stream, &contract, true);
            }
            let mut advance = |probe: &mut dyn Probe<f64>| {
                let mut run = Run::new(contract, probe).with(products);
                Ok(state.advance(self.model, phase, pass, &mut run)?)
            };
            f(loaded, &mut advance)
        })
    }

    fn judge<'l>(
        &self,
        (thorough, beside): (bool, &[Lens]),
        mut twin: Option<&mut Twin<'_>>,
        look: Option<&'l Look>,
        mut progress: impl FnMut(Phase),
    ) -> Result<Gathered<'l>, Failure> {
        let start = self.first_layer();
        let absent = self.candidate.start(0).is_some_and(|start| start.absent > 0);
        // Nothing can be run freely from a prefix that nobody knows, nor a whole layer.
        let possible = |lens: &Lens| (start == 0 || *lens != Lens::Global) && (!absent || *lens == Lens::Local);
        let track = |lens: Lens| {
            let track = Track::new(lens, self.model, self.contract, thorough);
            if self.lenses.contains(&lens) { track } else { track.silent() }
        };
        let lenses = Lens::ALL.into_iter().filter(|lens| self.lenses.contains(lens) || beside.contains(lens));
        let mut tracks: Vec<Track<'_>> = lenses.filter(possible).map(track).collect();
        let mut gathered = Gathered { look, ..Gathered::default() };
        let mut first = 0;
        for (step, tokens) in self.steps.iter().enumerate() {
            let pass = self.begin(step, first);
            first = pass.start.position;
            let extent = self.extent(step);
            for phase in self.pass(step) {
                let loaded = Loaded::new(self.candidate, self.model.config(), step, extent);
                if phase == Phase::Layer(start) && start > 0 {
                    let stream = loaded.value(output_of(start - 1))?;
                    for track in &mut tracks {
                        track.jump(&stream);
                    }
                    if let Some(twin) = &mut twin {
                        twin.jump(&stream);
                    }
                }
                let before = gathered.found.sites.len();
                self.advance(&mut tracks, phase, pass, &loaded, &mut gathered)?;
                let found = &mut gathered.found;
                found.sites[before..].iter_mut().for_each(|report| report.first = first);
                if let Some(twin) = &mut twin {
                    let mut stands = twin.advance(phase, pass, &loaded)?;
                    for report in found.sites[before..].iter_mut().filter(|report| report.lens == Lens::Local) {
                        report.stands_to_twin(stands.agreements.get(&report.site).copied());
                        if let Some(exchanged) = stands.exchanged.remove(&report.site) {
                            exchanged.tell(report);
                        }
                    }
                }
                progress(phase);
            }
            first += tokens.len();
        }
        Ok(gathered)
    }

    /// How often `progress` is told.
    pub fn phases(&self) -> usize {
        (0..self.steps.len()).map(|step| self.pass(step).count()).sum()
    }

    /// A forward pass, at position `first` unless the candidate says otherwise.
    fn begin(&self, step: usize, first: usize) -> Pass<'_> {
        let tokens = &self.steps[step];
        let prompt = self.prompt.saturating_sub(first).min(tokens.len());
        let start = self.candidate.start(step).unwrap_or(Start { position: first, rotated: first, absent: 0 });
        Pass { tokens, prompt: &tokens[..prompt], start, more: step + 1 < self.steps.len() }
    }

    pub(crate) fn extent(&self, step: usize) -> Extent {
        extent_from(self.first_of(step), self.steps[step].len(), self.model.media())
    }

    /// The position at which a step begins.
    fn first_of(&self, step: usize) -> usize {
        let before = || self.steps[..step].iter().map(Vec::len).sum();
        self.candidate.start(step).map_or_else(before, |start| start.position)
    }

    /// Whether a run of the layers goes on from values that the candidate shows, as one from the tokens does: from a residual stream
    /// of which every value is a number.
    pub(crate) fn begins_anew(&self) -> Result<bool, Failure> {
        let start = self.first_layer();
        if start == 0 {
            return Ok(false);
        }
        for step in 0..self.steps.len() {
            let loaded = Loaded::new(self.candidate, self.model.config(), step, self.extent(step));
            if !loaded.value(output_of(start - 1))?.iter().all(|x| x.is_finite()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first layer that has to be run: the first of the chosen ones, if the candidate shows what goes into it.
    pub fn first_layer(&self) -> usize {
        let Some(before) = self.layers.start.checked_sub(1) else { return 0 };
        let shown = |step| {
            let at = At { step, site: output_of(before) };
            self.candidate.has(at) && matches!(self.candidate.shown(at, self.extent(step)), Ok(None))
        };
        if (0..self.steps.len()).all(shown) { self.layers.start } else { 0 }
    }

    fn pass(&self, step: usize) -> impl Iterator<Item = Phase> + use<> {
        let head = (self.layers.end == self.model.config().num_hidden_layers).then_some(Phase::Head);
        let layers = (self.first_layer()..self.layers.end).map(Phase::Layer);
        // A run that begins in between begins from a stream that has seen.
        let media = self.model.media().filter(|_| self.first_layer() == 0);
        let shown = media.and_then(|media| media.at(self.first_of(step)));
        let passes = shown.map_or(0, |media| media.passes().count());
        let depth = self.model.config().vision.as_ref().map_or(0, |vision| vision.num_hidden_layers);
        let tower = (0..passes).flat_map(move |pass| {
            let layers = (0..depth).map(move |layer| Phase::TowerLayer(pass, layer));
            std::iter::once(Phase::Patches(pass)).chain(layers).chain([Phase::Features(pass)])
        });
        tower.chain([Phase::Start]).chain(layers).chain(head)
    }

    fn advance(
        &self,
        tracks: &mut [Track<'_>],
        phase: Phase,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        gathered: &mut Gathered<'_>,
    ) -> Result<(), Failure> {
        let Gathered { found, look, values } = gathered;
        let is_judged = |site| look.and_then(|look| look.only.as_ref()).is_none_or(|only| only.contains(&site));
        let mut outputs: Vec<(Lens, Array2<f64>)> = Vec::new();
        for track in tracks {
            let shown = track.advance(phase, pass, loaded)?;
            let of_track = found.sites.len();
            let of_layer = shown.seen.iter().filter(|judge| matches!(judge.site(), Site::Layer(_, LayerSite::Output)));
            outputs.extend(of_layer.map(|judge| (track.lens, judge.computed().clone())));
            if track.is_silent() {
                continue;
            }
            let choices = shown.choices.iter().filter(|choice| is_judged(choice.site));
            found.sites.extend(choices.map(|choice| choice.report(loaded.step())));
            for judge in shown.seen.into_iter().filter(|judge| is_judged(judge.site())) {
                let at = At { step: loaded.step(), site: judge.site() };
                if self.keep == Some(at) && track.lens == Lens::Local {
                    found.kept = Some(judge.kept(&self.contract, loaded)?);
                }
                if look.is_some_and(|look| look.values) {
                    values.push((at, judge.kept(&self.contract, loaded)?));
                }
                found.sites.push(judge.report(track.lens, &self.contract, loaded)?);
            }
            if track.lens == Lens::Local {
                found.sites.extend(shown.others.into_iter().map(|site| loaded.fault_of_size(site)));
            }
            // Sites are ordered as a token meets them; choices come among the values they are made of.
            found.sites[of_track..].sort_by_key(|report| report.site);
            found.missing.extend(shown.missing);
        }
        let output = |lens| outputs.iter().find(|(of, _)| *of == lens).map(|(_, value)| value);
        if let (Some(forced), Some(free)) = (output(Lens::Layer), output(Lens::Global)) {
            let carried = (forced - free).mapv(|x| x * x).sum().sqrt() / free.mapv(|x| x * x).sum().sqrt();
            if let Phase::Layer(layer) = phase {
                found.open.carried.push((loaded.step(), layer, carried));
            }
        }
        Ok(())
    }
}

/// The residual stream after a layer.
fn output_of(layer: usize) -> Site {
    Site::Layer(layer, LayerSite::Output)
}
