//! The reference with mistakes assumed, next to a candidate: what is left of a fault, and how many values are reproduced.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use fixtures::names::at::At;
use reference::site::Extent;
use reference::{Site, Storage};

use super::catalogue::assumption::Assumption;
use super::catalogue::mistake::{Assumed, Change};
use super::catalogue::operator::in_any_layer;
use super::catalogue::tensors::TensorChange;
use super::catalogue::weights::WeightChange;
use super::reach::{holds_in_some_layers, in_layers};
use super::search::Bench;
use super::share::Share;
use super::view::{View, Viewed};
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::found::Found;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::judge::verification::{Verification, extent};

/// How much is asked of a comparison.
#[derive(Debug, Clone, Copy)]
pub(super) enum Depth {
    /// The verdicts.
    Verdicts,
    /// Noise, too, where a value is beyond any.
    Noise,
    /// The twin beside it.
    Twin,
}

/// A deviation from its twin that no right candidate has, in roots of the unit roundoff: 0.002 in f32, 0.5 in bf16. Roundings go
/// as the unit itself, so this is thousands of them in f32 and hundreds in bf16, where one is already as far as values are apart.
const LARGEST: f64 = 8.0;

/// Shares by layer; what is in none together.
type Shares = BTreeMap<Option<usize>, Share>;

/// Shares by step and site.
type BySite = BTreeMap<(usize, Site), Share>;

/// What is known before a mistake is assumed.
pub(super) struct Before<'a> {
    pub(super) assumption: &'a Assumption,
    pub(super) reports: &'a [SiteReport],
    /// The site of the fault, where values are so coarse that much is within its bounds: an explanation has to make more of them
    /// the candidate's there.
    pub(super) bench: Option<&'a Bench<'a, 'a>>,
    shares: Shares,
    /// Of the sites of the fault's layer.
    sites: BySite,
}

/// A mistake that was tried, and what it leaves.
pub(super) struct Tried {
    pub(super) assumption: Assumption,
    /// What was assumed in addition.
    pub(super) added: Vec<Assumed>,
    pub(super) reports: Vec<SiteReport>,
    /// Faults, or where there is none, suspicious sites.
    pub(super) left: usize,
    /// Faults among these that were none before.
    pub(super) made: usize,
    /// Comparisons of the layer that are within their bounds, of so many.
    pub(super) fits: (usize, usize),
    /// Layers of which more is right under it.
    pub(super) layers: Vec<usize>,
    /// Whether in some layer less is right.
    pub(super) is_worse: bool,
    /// Whether at some site of the fault's layer fewer values are reproduced: another operator is not what is assumed.
    pub(super) is_against: bool,
    /// At the site of the fault, before and under it.
    pub(super) reproduced: [Share; 2],
    /// The same of the layer.
    pub(super) of_layer: Share,
    pub(super) far: f64,
}

impl Tried {
    /// What was added, where it holds in all layers, in those alone of which more is right, and in one.
    fn narrowed(&self, layer: usize) -> Option<Vec<Assumed>> {
        let layers: BTreeSet<usize> = self.layers.iter().copied().chain([layer]).collect();
        in_layers(&self.added, &layers.into_iter().collect::<Vec<_>>())
    }
}

/// The faults, in the order in which a token meets them.
pub(super) fn faults(reports: &[SiteReport]) -> Vec<&SiteReport> {
    let mut faults: Vec<&SiteReport> = reports.iter().filter(|report| report.verdict == Verdict::Fault).collect();
    faults.sort_by_key(|report| (report.step, report.site));
    faults
}

impl Comparison<'_> {
    /// The model with its sizes under an assumption, judged by the local lens.
    pub(super) fn verify(
        &self,
        assumption: &Assumption,
        layers: Range<usize>,
        keep: Option<At>,
    ) -> Result<Found, Failure> {
        self.put_next_to(assumption, layers, keep, Depth::Noise)
    }

    /// Whether values are so coarse that the twin tells structure.
    pub(super) fn tells_structure(&self) -> bool {
        matches!(self.contract.shown(), Storage::Bf16 | Storage::F16)
    }

    /// What the twin says, too: verdicts with what is suspicious by its structure.
    pub(super) fn with_twin(&self, assumption: &Assumption, layers: Range<usize>) -> Result<Vec<SiteReport>, Failure> {
        Ok(self.put_next_to(assumption, layers, None, Depth::Twin)?.sites)
    }

    /// The verdicts on some layers under an assumption.
    pub(super) fn verdicts(&self, assumption: &Assumption, layers: Range<usize>) -> Result<Vec<SiteReport>, Failure> {
        Ok(self.put_next_to(assumption, layers, None, Depth::Verdicts)?.sites)
    }

    /// The same, up to a step: later ones do not change it.
    fn until(&self, assumption: &Assumption, layers: Range<usize>, step: usize) -> Result<Vec<SiteReport>, Failure> {
        let verdicts = |all: Verification<'_>| Verification { steps: &all.steps[..=step], ..all }.verdicts();
        Ok(self.under(assumption, layers, verdicts)?.sites)
    }

    fn put_next_to(
        &self,
        assumption: &Assumption,
        layers: Range<usize>,
        keep: Option<At>,
        depth: Depth,
    ) -> Result<Found, Failure> {
        self.under(assumption, layers, |verification| {
            let verification = Verification { keep, ..verification };
            match depth {
                Depth::Verdicts => verification.verdicts(),
                Depth::Noise => verification.without_twin(),
                Depth::Twin => verification.run(|| ()),
            }
        })
    }

    /// What `f` makes of the comparison with the model under an assumption.
    pub(super) fn under<R>(
        &self,
        assumption: &Assumption,
        layers: Range<usize>,
        f: impl FnOnce(Verification<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let Compared { config, media, candidate, steps, prompt, .. } = self.compared;
        let weights = assumption.weights(config, &self.weights);
        let model = assumption.model(config, &weights)?.seeing(media);
        let candidate = candidate.under(model.config());
        let (unseen, instead) = (assumption.unseen.clone(), assumption.instead.clone());
        let view = View { exchanged: assumption.order.clone(), unseen, instead };
        let candidate = Viewed { inner: &*candidate, view: &view };
        let (contract, lenses, candidate) = (self.contract, &[Lens::Local], &candidate);
        f(Verification { model: &model, candidate, contract, steps, prompt, lenses, layers, keep: None })
    }

    pub(super) fn all(&self) -> Range<usize> {
        0..self.compared.config.num_hidden_layers
    }

    /// The layers that have to be run to see a site.
    pub(super) fn around(&self, site: Site) -> Range<usize> {
        let layers = self.compared.config.num_hidden_layers;
        match site {
            Site::Layer(layer, _) => layer..layer + 1,
            Site::Vision(..)
            | Site::Embedding
            | Site::Module(_)
            | Site::InputsEmbeds
            | Site::RopeCos
            | Site::RopeSin => 0..1,
            Site::FinalNorm | Site::LmHead | Site::Logits => layers - 1..layers,
        }
    }

    pub(super) fn extent(&self, step: usize) -> Extent {
        extent(self.compared.steps, self.compared.media, step)
    }

    /// What is known before more is assumed.
    pub(super) fn before<'a>(
        &self,
        assumption: &'a Assumption,
        reports: &'a [SiteReport],
        fault: &SiteReport,
        bench: Option<&'a Bench<'a, 'a>>,
    ) -> Result<Before<'a>, Failure> {
        let (shares, sites) = self.shares(assumption, fault.site)?;
        let bench = bench.filter(|_| self.tells_structure());
        Ok(Before { assumption, reports, bench, shares, sites })
    }

    /// How many values equal the twin's under an assumption: by layer, and by site in the layer of one.
    fn shares(&self, assumption: &Assumption, of: Site) -> Result<(Shares, BySite), Failure> {
        let agreements = self.under(assumption, self.all(), |verification| verification.agreements())?;
        let (mut shares, mut sites) = (Shares::new(), BySite::new());
        for (place, agreement) in agreements {
            let share = Share { count: agreement.count, equal: agreement.equal };
            *shares.entry(place.site.layer()).or_default() += share;
            if place.site.layer() == of.layer() {
                *sites.entry((place.step, place.site)).or_default() += share;
            }
        }
        Ok((shares, sites))
    }

    /// What mistakes leave, if a fault is gone under them, and how far the candidate is from them there. One that does not hold in
    /// all layers is left to those in which it does.
    pub(super) fn attempt(
        &self,
        before: &Before<'_>,
        added: &[Assumed],
        fault: &SiteReport,
    ) -> Result<(Option<Tried>, f64), Failure> {
        let assumption = before.assumption.and_all(added)?;
        let layers = self.around(fault.site);
        if let Some(far) = self.far(&assumption, layers.clone(), fault)?
            && far > beyond_rounding(self.contract.shown())
        {
            return Ok((None, far));
        }
        let until = self.until(&assumption, layers.clone(), fault.step)?;
        let far = deviation(fault, &until);
        if !fits(fault, &until, before.reports) {
            return Ok((None, far));
        }
        let is_last = fault.step + 1 == self.compared.steps.len();
        let found = if is_last { until } else { self.verdicts(&assumption, layers)? };
        if !is_last && !fits(fault, &found, before.reports) {
            return Ok((None, far));
        }
        // What is right in one call by chance leaves the same operator wrong in most others.
        let [was, left] = [before.reports, &found[..]].map(|reports| calls_at_fault(fault.site, reports));
        if 2 * left > was {
            return Ok((None, far));
        }
        let right = found.iter().filter(|report| report.verdict != Verdict::Fault).count();
        let mut tried = self.tried(before, added.to_vec(), fault)?;
        if let Some(layer) = fault.site.layer() {
            let everywhere = self.widened(before, added, fault)?;
            if let Some(wider) = everywhere.filter(|wider| wider.left < tried.left) {
                tried = wider;
            }
            if tried.is_worse
                && let Some(narrowed) = tried.narrowed(layer)
            {
                tried = self.tried(before, narrowed, fault)?;
            }
        }
        if tried.is_against || leaves_other_layers(fault.site, before.reports, &tried) {
            return Ok((None, far));
        }
        if fault.site.is_choice() && !self.rechooses([before.assumption, &tried.assumption], fault.site)? {
            return Ok((None, far));
        }
        if let Some(bench) = before.bench
            && !bench.has_more(&bench.twin_under(&tried.added)?)
        {
            return Ok((None, far));
        }
        Ok((Some(Tried { fits: (right, found.len()), far, ..tried }), far))
    }

    /// How far the candidate is at a fault from what its twin has there, of that.
    fn far(&self, assumption: &Assumption, layers: Range<usize>, fault: &SiteReport) -> Result<Option<f64>, Failure> {
        if fault.site.is_choice() {
            return Ok(None);
        }
        let rerun = self.under(assumption, layers, |all| {
            Verification { steps: &all.steps[..=fault.step], ..all }.rerun(self.contract, fault.site, &[])
        })?;
        Ok(rerun.deviation())
    }

    /// What is found in one layer, assumed in all, where others have a fault, too.
    fn widened(&self, before: &Before<'_>, added: &[Assumed], fault: &SiteReport) -> Result<Option<Tried>, Failure> {
        let others = faults(before.reports).iter().any(|other| other.site.layer() != fault.site.layer());
        let of_one =
            |change: &Change| matches!(change, Change::Weights(WeightChange::Tensor(TensorChange::OfLayer(..))));
        let is_wider =
            |one: &Assumed| one.layers.is_some() && !of_one(&one.change) && holds_in_some_layers(&one.change);
        if !others || !added.iter().all(is_wider) {
            return Ok(None);
        }
        let all = added.iter().map(|one| one.within(None)).chain(self.unseen_table(added)).collect();
        self.tried(before, all, fault).map(Some)
    }

    pub(super) fn tried(&self, before: &Before<'_>, added: Vec<Assumed>, fault: &SiteReport) -> Result<Tried, Failure> {
        let assumption = before.assumption.and_all(&added)?;
        let reports = self.verdicts(&assumption, self.all())?;
        let (shares, sites) = self.shares(&assumption, fault.site)?;
        let after = (&reports[..], &shares);
        let where_it = |is| self.all().filter(move |layer| stands(before, after, *layer) == is);
        let (layers, is_worse) = (where_it(Stands::Better).collect(), where_it(Stands::Worse).next().is_some());
        let of_layer = shares.get(&fault.site.layer()).copied().unwrap_or_default();
        let is_against = before.sites.iter().any(|(at, was)| sites.get(at).is_some_and(|is| was.exceeds(*is)));
        let reproduced = [&before.sites, &sites].map(|sites| at_site(sites, fault.site));
        let [was, is] = [before.reports, &reports].map(|of| faults(of).into_iter().map(at).collect::<Vec<_>>());
        let (left, made) = (is.len(), is.iter().filter(|at| !was.contains(at)).count());
        let (fits, far) = ((0, 0), 0.0);
        Ok(Tried {
            assumption,
            added,
            reports,
            left,
            made,
            fits,
            layers,
            is_worse,
            is_against,
            reproduced,
            of_layer,
            far,
        })
    }
}

/// Where a report is.
pub(super) fn at(report: &SiteReport) -> (usize, Site) {
    (report.step, report.site)
}

/// The share at a site, of all steps.
fn at_site(sites: &BySite, at: Site) -> Share {
    let mut all = Share::default();
    sites.iter().filter(|((_, site), _)| *site == at).for_each(|(_, share)| all += *share);
    all
}

/// How a layer is under a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Better,
    Alike,
    Worse,
}

fn stands(before: &Before<'_>, (reports, shares): (&[SiteReport], &Shares), layer: usize) -> Stands {
    let count =
        |reports: &[SiteReport]| faults(reports).iter().filter(|fault| fault.site.layer() == Some(layer)).count();
    let share = |shares: &Shares| shares.get(&Some(layer)).copied().unwrap_or_default();
    let ((was, is), (old, new)) = ((count(before.reports), count(reports)), (share(&before.shares), share(shares)));
    match is.cmp(&was) {
        std::cmp::Ordering::Less => Stands::Better,
        std::cmp::Ordering::Greater => Stands::Worse,
        std::cmp::Ordering::Equal if new.exceeds(old) => Stands::Better,
        std::cmp::Ordering::Equal if old.exceeds(new) => Stands::Worse,
        std::cmp::Ordering::Equal => Stands::Alike,
    }
}

/// Whether a fault is gone, and no other came in its place.
fn fits(fault: &SiteReport, under: &[SiteReport], before: &[SiteReport]) -> bool {
    let was = |report: &SiteReport| before.iter().any(|b| at(b) == at(report) && b.verdict == Verdict::Fault);
    let gone = under.iter().filter(|report| at(report) == at(fault)).all(|report| report.verdict != Verdict::Fault);
    let mut new = under.iter().filter(|report| report.verdict == Verdict::Fault && !was(report));
    gone && under.iter().any(|report| at(report) == at(fault)) && new.next().is_none()
}

/// Whether what explains a choice of one layer leaves that of another at fault: few choices are off, and by chance some follow from
/// what is not so; what is so of an operator is so in all layers.
fn leaves_other_layers(site: Site, before: &[SiteReport], tried: &Tried) -> bool {
    let is_other =
        |report: &&SiteReport| in_any_layer(report.site) == in_any_layer(site) && report.site.layer() != site.layer();
    let others = |reports: &[SiteReport]| faults(reports).into_iter().filter(is_other).map(at).collect::<BTreeSet<_>>();
    let is_loaded = tried.added.iter().all(|one| one.mistake.is_searched());
    site.is_choice() && !is_loaded && !others(before).is_disjoint(&others(&tried.reports))
}

/// In how many calls an operator is wrong.
fn calls_at_fault(site: Site, reports: &[SiteReport]) -> usize {
    let wrong = reports.iter().filter(|report| report.site == site && report.verdict == Verdict::Fault);
    wrong.map(|report| report.step).collect::<BTreeSet<_>>().len()
}

/// A deviation of all values together that is more than any order of sums in one layer leaves.
fn beyond_rounding(shown: Storage) -> f64 {
    LARGEST * shown.unit_roundoff().max(Storage::F32.unit_roundoff()).sqrt()
}

fn deviation(fault: &SiteReport, reports: &[SiteReport]) -> f64 {
    reports.iter().filter(|report| at(report) == at(fault)).map(|report| report.deviation).sum()
}
