//! From what was seen to a verdict.

use std::borrow::Cow;

use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView1, Zip};
use reference::bound::{ErrorBound, confidence};
use reference::compare::{compare, ratio};
use reference::ops::sampling::argmax;
use reference::{RoundingContract, Site, Storage};

use super::chance::beyond;
use super::doubt::Doubtful;
use super::floor::{FAR, NoiseFloor, Strayed, apart};
use super::lens::Lens;
use super::likelihood::likelihood;
use super::loaded::Loaded;
use super::masked::{are_unshown, has_logits};
use super::substitution::Seen;
use crate::compare::metrics::unravel;
use crate::failure::Failure;
use crate::judge::spread::Spread;
use crate::judge::stored::saved_as;
use crate::judge::verdict::{JudgedBy, SiteReport, Top, Verdict, Worst};

/// A bound carried through more matrix products than this says nothing; noise is measured instead.
const CARRIED: u32 = 1;

/// How often a run over correct values may call one of them suspicious.
const FALSE_SUSPICION: f64 = 1e-6;

/// Values of the run that share one probability of false suspicion, at least: sites times elements.
const FAMILY: usize = 1 << 30;

/// A site that was seen, and what the noise runs computed there.
pub(crate) struct Judge {
    seen: Seen,
    /// The tokens whose rows may be others, by choices that nothing tells, if any may.
    pub(super) doubt: Option<Doubtful>,
    strayed: Strayed,
    /// Whether more is told than the verdict.
    is_told: bool,
    /// Whether it is so far from what noise runs computed that no more of them were needed.
    is_far: bool,
}

/// The values of one site as they were judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The shape of the dumped tensor, without a batch axis.
    pub shape: Vec<usize>,
    /// What the candidate has, as a matrix.
    pub candidate: Array2<f64>,
    /// What the reference has.
    pub reference: Array2<f64>,
    /// How far each may be off.
    pub bound: Array2<f64>,
}

impl Judge {
    pub(crate) fn new(seen: Seen, doubt: Option<Doubtful>, is_told: bool) -> Self {
        Judge { seen, doubt, strayed: Strayed::default(), is_told, is_far: false }
    }

    /// The candidate's values with the reference's in rows that are in doubt.
    fn without_doubt<'a>(&self, candidate: &'a Array2<f64>, storage: Storage) -> Cow<'a, Array2<f64>> {
        let Some(doubt) = &self.doubt else { return Cow::Borrowed(candidate) };
        let mut plain = candidate.clone();
        for (i, (mut row, reference)) in plain.rows_mut().into_iter().zip(self.computed().rows()).enumerate() {
            if doubt.has(self.token(i, doubt.len())) {
                row.assign(&reference.mapv(|x| storage.nearest(x)));
            }
        }
        Cow::Owned(plain)
    }

    /// Whether no more of the tokens in doubt are off than other choices explain.
    fn is_explained(&self, candidate: &Array2<f64>, storage: Storage) -> bool {
        let Some(doubt) = &self.doubt else { return false };
        let bound = self.bound(storage);
        let mut off = vec![false; doubt.len()];
        for ((i, j), &x) in candidate.indexed_iter() {
            off[self.token(i, doubt.len())] |= ratio(x, self.computed()[(i, j)], bound[(i, j)]) > 1.0;
        }
        doubt.explains((0..doubt.len()).filter(|&token| off[token] && doubt.has(token)).count())
    }

    /// The token of a row, of so many tokens.
    fn token(&self, row: usize, tokens: usize) -> usize {
        self.seen.shown.as_deref().map_or(row % tokens, |shown| shown[row % shown.len()])
    }

    /// How far each value may be off.
    fn bound(&self, storage: Storage) -> Array2<f64> {
        let reference = self.computed();
        if self.strayed.count() == 0 {
            return self.seen.computed.error_or_exact().certain;
        }
        let floor = NoiseFloor::of(reference, &self.strayed, storage);
        Array2::from_shape_fn(reference.dim(), |at| floor.bound(at))
    }

    pub(crate) fn site(&self) -> Site {
        self.seen.site
    }

    /// What the reference computed.
    pub(crate) fn computed(&self) -> &Array2<f64> {
        &self.seen.computed.value
    }

    pub(crate) fn needs_floor(&self) -> bool {
        let carried = self.seen.computed.error.as_ref().is_none_or(|error| error.carried > CARRIED);
        carried && self.seen.unknown.is_none()
    }

    /// Whether a value is beyond its bound, however far that was carried: a fault, whatever the noise is.
    pub(crate) fn is_beyond(&self, loaded: &Loaded<'_>) -> Result<bool, Failure> {
        let Some(error) = &self.seen.computed.error else { return Ok(false) };
        let shown = loaded.value(self.seen.site)?;
        let candidate = self.without_doubt(&shown, Storage::Real);
        let values = candidate.iter().zip(self.computed()).zip(&error.certain);
        Ok(values.into_iter().any(|((candidate, reference), bound)| ratio(*candidate, *reference, *bound) > 1.0))
    }

    /// Adds what a noise run computed.
    pub(crate) fn add_member(&mut self, value: &Array2<f64>) {
        self.strayed.add(value, &self.seen.computed.value);
    }

    /// Gives up on it where the candidate is further than any noise from what few runs computed.
    pub(crate) fn give_up_if_far(&mut self, loaded: &Loaded<'_>) -> Result<(), Failure> {
        let shown = loaded.value(self.site())?;
        let candidate = self.without_doubt(&shown, Storage::Real);
        let off = norm(&apart(&candidate, self.computed()));
        self.is_far = off > FAR * self.strayed.largest();
        Ok(())
    }

    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    /// The values as they are judged.
    pub(crate) fn kept(&self, contract: &RoundingContract, loaded: &Loaded<'_>) -> Result<Kept, Failure> {
        let reference = self.computed().clone();
        let candidate = loaded.value(self.site())?.as_ref().clone();
        let bound = self.bound(loaded.shown_in(self.site(), contract, &candidate));
        Ok(Kept { shape: loaded.shape(self.site(), self.seen.shown.as_deref()), candidate, reference, bound })
    }

    /// The site's report; `contract` says what the candidate stores values in.
    pub(crate) fn report(
        self,
        lens: Lens,
        contract: &RoundingContract,
        loaded: &Loaded<'_>,
    ) -> Result<SiteReport, Failure> {
        let candidate = loaded.value(self.seen.site)?;
        let storage = loaded.shown_in(self.seen.site, contract, &candidate);
        let missing = SiteReport::missing(loaded.step(), self.seen.site, lens);
        let shape = loaded.shape(self.seen.site, self.seen.shown.as_deref());
        let saved = saved_as(contract, &candidate).is_some();
        let told = |candidate: &Array2<f64>| self.told(missing.clone(), candidate, (storage, saved), &shape);
        let mut report = told(&candidate);
        if report.verdict > Verdict::Inconclusive && self.is_explained(&candidate, storage) {
            let certain = told(&self.without_doubt(&candidate, storage));
            if certain.verdict < Verdict::Suspicious {
                let note =
                    "of tokens whose experts or blocks rounding decides, which nothing shows, nothing can be said";
                report = SiteReport { verdict: Verdict::Inconclusive, note: Some(note.to_owned()), ..certain };
            }
        }
        if let Some(shown) = &self.seen.shown {
            let axis = self.seen.site.token_axis(loaded.config).unwrap_or(0);
            report.worst.iter_mut().for_each(|worst| worst.index[axis] = shown[worst.index[axis]]);
            report.tops.iter_mut().for_each(|top| top.token = shown[top.token]);
        }
        Ok(report)
    }

    /// The same of these values.
    fn told(
        &self,
        mut report: SiteReport,
        candidate: &Array2<f64>,
        (storage, were_saved): (Storage, bool),
        shape: &[usize],
    ) -> SiteReport {
        let reference = &self.seen.computed.value;
        let (difference, signal) = (norm(&apart(candidate, reference)), norm(reference));
        let shown = || candidate.iter().zip(reference).filter(|(c, r)| !are_unshown(self.site(), **c, **r));
        let (count, equal) = (shown().count(), shown().filter(|(c, r)| **c == storage.nearest(**r)).count());
        report = SiteReport {
            verdict: Verdict::Within,
            count,
            equal,
            deviation: if difference == 0.0 { 0.0 } else { difference / signal },
            segment: self.seen.segment.clone(),
            tops: tops(self.seen.site, candidate, reference),
            ..report
        };
        if let Some(why) = &self.seen.unknown {
            (report.verdict, report.note) = (Verdict::Inconclusive, Some(why.clone()));
            return report;
        }
        if count == 0 {
            (report.verdict, report.note) = (Verdict::Inconclusive, Some("nothing of it is shown".into()));
            return report;
        }
        if self.is_far {
            report.verdict = Verdict::Fault;
        } else if self.strayed.count() == 0 {
            self.by_bound(candidate, storage, shape, &mut report);
        } else {
            self.by_floor(candidate, (storage, were_saved), (shape, signal), &mut report);
        }
        if report.verdict != Verdict::Fault && equal == report.count {
            report.verdict = Verdict::Exact;
        }
        let zeros = candidate.iter().all(|x| *x == 0.0);
        if report.verdict != Verdict::Fault && zeros && !is_zero_by_nature(self.seen.site) {
            report.verdict = report.verdict.max(Verdict::Inconclusive);
            report.note = Some("every value is 0".into());
        }
        report
    }

    fn by_bound(&self, candidate: &Array2<f64>, storage: Storage, shape: &[usize], report: &mut SiteReport) {
        let reference = &self.seen.computed.value;
        let error = self.seen.computed.error_or_exact();
        let lambda = confidence(FAMILY.max(reference.len()), FALSE_SUSPICION);
        let found = compare(candidate.view(), reference.view(), &error, storage, lambda);
        (report.faults, report.suspicious) = (found.faults, found.suspicious);
        if self.is_told {
            report.unequal_expected = Some(expected_unequal(reference, &error, storage));
            let ratio = |at| ratio(candidate[at], reference[at], error.certain[at]);
            report.spread = Some(Spread::of(reference.dim(), ratio));
            let bound = |at| error.certain[at];
            report.likelihood = has_logits(self.site()).then(|| likelihood(candidate, reference, bound));
        }
        report.worst = found.worst.map(|worst| Worst {
            index: unravel(worst.at.0 * reference.ncols() + worst.at.1, shape),
            candidate: worst.candidate,
            reference: worst.reference,
            bound: worst.bound,
            ratio: worst.ratio,
        });
        report.verdict = match (found.faults, found.suspicious) {
            (0, 0) => Verdict::Within,
            (0, _) => Verdict::Suspicious,
            _ => Verdict::Fault,
        };
        if found.faults == 0 && norm(&error.certain) > norm(reference) && found.equal < found.count {
            report.verdict = report.verdict.max(Verdict::Inconclusive); // what is suspicious stays so
            report.note = Some("the error bound is above the signal".into());
        }
    }

    fn by_floor(
        &self,
        candidate: &Array2<f64>,
        (storage, were_saved): (Storage, bool),
        (shape, signal): (&[usize], f64),
        report: &mut SiteReport,
    ) {
        let reference = &self.seen.computed.value;
        let floor = NoiseFloor::of(reference, &self.strayed, storage);
        let deviation = apart(candidate, reference);
        let together = floor.ratio(&deviation);
        report.judged_by = JudgedBy::NoiseFloor(self.strayed.count());
        report.floor = Some(floor.largest / signal);
        report.limit = Some(floor.limit() / signal);
        report.quantile = Some(floor.quantile(&deviation, were_saved));
        let ratio_at = |at| ratio(candidate[at], reference[at], floor.bound(at));
        if self.is_told {
            report.spread = Some(Spread::of(reference.dim(), ratio_at));
            let bound = |at| floor.bound(at);
            report.likelihood = has_logits(self.site()).then(|| likelihood(candidate, reference, bound));
        }
        let mut worst: Option<Worst> = None;
        Zip::indexed(&deviation).for_each(|at, &d| {
            let (bound, ratio) = (floor.bound(at), ratio_at(at));
            if ratio > 1.0 || d.is_nan() {
                report.faults += 1;
            }
            if worst.as_ref().is_none_or(|worst| ratio > worst.ratio) {
                let index = unravel(at.0 * reference.ncols() + at.1, shape);
                worst = Some(Worst { index, candidate: candidate[at], reference: reference[at], bound, ratio });
            }
        });
        report.worst = worst;
        let rows = floor.rows_off(&deviation);
        report.verdict = if together <= 1.0 && rows.ratio <= 1.0 { Verdict::Within } else { Verdict::Fault };
        if report.verdict == Verdict::Fault && report.faults == 0 {
            report.note = Some(if together > 1.0 {
                format!("no value stands out, but together they are {together:.1} times the noise limit")
            } else {
                rows.told()
            });
        }
        if report.verdict == Verdict::Within && floor.limit() > signal {
            report.verdict = Verdict::Inconclusive;
            report.note = Some("the limit of the noise floor is above the signal".into());
        }
    }
}

/// How many values of a right implementation are not the reference's, rounded: those whose error before rounding, taken as
/// normal, carries them over the middle between two neighbours.
fn expected_unequal(reference: &Array2<f64>, error: &ErrorBound, storage: Storage) -> f64 {
    let crosses = |at: (usize, usize), r: f64| {
        let sigma = error.before_rounding(at, r, storage);
        let distance = storage.spacing(r) / 2.0 - (r - storage.nearest(r)).abs();
        beyond(distance, sigma)
    };
    let rows = reference.outer_iter().into_par_iter().enumerate();
    let of_row = |(i, row): (usize, ArrayView1<'_, f64>)| row.indexed_iter().map(|(j, &r)| crosses((i, j), r)).sum();
    rows.map(of_row).collect::<Vec<f64>>().into_iter().sum()
}

/// The likeliest tokens, where the site has logits.
fn tops(site: Site, candidate: &Array2<f64>, reference: &Array2<f64>) -> Vec<Top> {
    if !has_logits(site) {
        return Vec::new();
    }
    let rows = candidate.rows().into_iter().zip(reference.rows()).enumerate();
    let top = |(token, (candidate, reference))| {
        let (candidate, reference) = (argmax(candidate).ok()?.token, argmax(reference).ok()?);
        Some(Top { token, candidate, reference: reference.token, margin: reference.margin })
    };
    let is_shown = |row: &ArrayView1<'_, f64>| row.iter().any(|z| *z != f64::NEG_INFINITY);
    rows.filter(|(_, (candidate, _))| is_shown(candidate)).filter_map(top).collect()
}

/// sin of position 0 is 0.
fn is_zero_by_nature(site: Site) -> bool {
    site == Site::RopeSin
}

/// ‖x‖ of what is not masked or forced.
pub(super) fn norm(x: &Array2<f64>) -> f64 {
    x.iter().filter(|x| !x.is_infinite()).map(|x| x * x).sum::<f64>().sqrt()
}
