//! Layers that are put next to a candidate under one assumption after the other, and what each makes worse.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use fixtures::names::at::At;
use reference::Site;
use reference::compare::ratio;
use serde::{Deserialize, Serialize};

use crate::diagnose::catalogue::assumption::Assumption;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::judging::Kept;
use crate::judge::significance::Significant;
use crate::judge::structure::{Group, Structure};
use crate::judge::verdict::{JudgedBy, SiteReport, Verdict};
use crate::judge::verification::{Inspected, Look, Verification};

/// A share of a bound, of roundings to 24 bits or fewer, that the roundings of f64 make.
const OWN: f64 = 1e-6;

/// Layers that are judged together, as they are without any mistake.
pub(super) struct Stretch<'a, 'c> {
    comparison: &'a Comparison<'c>,
    layers: Range<usize>,
    look: Look,
    right: Inspected,
    values: HashMap<At, Kept>,
}

/// What becomes of a stretch under an assumption.
pub(super) struct Under {
    /// What was found there.
    pub(super) found: Inspected,
    /// The comparison that is the furthest out, of those that are not without the assumption.
    pub(super) worse: Option<Evidence>,
    /// How far the assumption moves what is compared.
    pub(super) moved: Moved,
}

/// A comparison that comes out badly under an assumption alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The forward pass.
    pub step: usize,
    /// The place.
    pub site: Site,
    /// Fault, or suspicious.
    pub verdict: Verdict,
    /// By what it was judged.
    pub judged_by: JudgedBy,
    /// How many bounds the worst value is off.
    pub bounds: Option<f64>,
    /// Values, or choices, that are outside; if it is suspicious, that are not as probable as they must be.
    pub off: usize,
    /// Of so many.
    pub count: usize,
    /// The structures that are suspicious.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub structures: Vec<Structure>,
    /// What else there is to say.
    pub note: Option<String>,
}

/// How far an assumption moves what is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// The most that a value is moved, in bounds.
    pub bounds: f64,
    /// Where.
    pub site: Option<Site>,
    /// Whether another choice is made.
    pub choices: bool,
}

/// Layers in as many stretches as can be judged by themselves: each begins where the candidate shows the residual stream.
pub(super) fn ranges(comparison: &Comparison<'_>, layers: &Range<usize>) -> Result<Vec<Range<usize>>, Failure> {
    let none = Assumption::none(comparison.compared.semantics);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for layer in layers.clone() {
        let begins =
            comparison.under(&none, layer..layer + 1, |verification| Ok(verification.first_layer() == layer))?;
        match ranges.last_mut() {
            Some(last) if !begins => last.end = layer + 1,
            _ => ranges.push(layer..layer + 1),
        }
    }
    Ok(ranges)
}

impl<'a, 'c> Stretch<'a, 'c> {
    /// Of these layers.
    pub(super) fn new(comparison: &'a Comparison<'c>, layers: Range<usize>, look: Look) -> Result<Self, Failure> {
        let none = Assumption::none(comparison.compared.semantics);
        let mut right = comparison.under(&none, layers.clone(), |verification| verification.inspect(&look))?;
        let values = right.values.drain(..).collect();
        Ok(Stretch { comparison, layers, look, right, values })
    }

    /// Its comparisons.
    pub(super) fn sites(&self) -> &[SiteReport] {
        &self.right.sites
    }

    /// What the twin says of it.
    pub(super) fn significant(&self) -> &Significant {
        &self.right.significant
    }

    /// The values of a comparison.
    pub(super) fn values(&self, at: At) -> Option<&Kept> {
        self.values.get(&at)
    }

    /// What becomes of it, or of some of its comparisons.
    pub(super) fn under(&self, assumption: &Assumption, only: Option<BTreeSet<Site>>) -> Result<Under, Failure> {
        let look = Look { only, ..self.look.clone() };
        let inspect = |verification: Verification<'_>| verification.inspect(&look);
        let found = self.comparison.under(assumption, self.layers.clone(), inspect)?;
        let worse = found.sites.iter().filter(|report| is_bad(report) && !self.was_bad(at(report)));
        let far = |report: &&SiteReport| (report.verdict, report.worst.as_ref().map_or(0.0, |worst| worst.ratio));
        let worst = worse.max_by(|a, b| {
            let ((a, far), (b, further)) = (far(a), far(b));
            a.cmp(&b).then(far.total_cmp(&further))
        });
        let (worse, moved) = (worst.map(Evidence::from), self.moved(&found));
        Ok(Under { found, worse, moved })
    }

    /// Whether the twin finds a structure, of some groups, that it does not find in this.
    pub(super) fn has_less_structure(&self, under: &Under, of: impl Fn(Group) -> bool) -> bool {
        let limit = self.significant().limit;
        let places = |significant: &Significant| -> BTreeSet<(Site, Group)> {
            let found = significant.structures.iter().filter(|(_, found)| found.probability <= limit && of(found.of));
            found.map(|(site, found)| (*site, found.of)).collect()
        };
        !places(&under.found.significant).is_subset(&places(self.significant()))
    }

    fn was_bad(&self, place: At) -> bool {
        self.report(place).is_some_and(is_bad)
    }

    fn report(&self, place: At) -> Option<&SiteReport> {
        self.right.sites.iter().find(|report| at(report) == place)
    }

    fn moved(&self, found: &Inspected) -> Moved {
        let mut moved = Moved::default();
        for (at, under) in &found.values {
            let alike = self.values.get(at).filter(|right| right.reference.dim() == under.reference.dim());
            let Some(right) = alike.filter(|_| !self.was_bad(*at)) else { continue };
            let pairs = under.reference.iter().zip(&right.reference).zip(&right.bound);
            let most = furthest(pairs.map(|((under, right), bound)| (*under, *right, *bound)));
            if most > moved.bounds {
                (moved.bounds, moved.site) = (most, Some(at.site));
            }
        }
        let other = |report: &SiteReport| {
            let right = self.report(at(report)).filter(|right| !is_bad(right));
            right.is_some_and(|right| right.chosen != report.chosen)
        };
        moved.choices = found.sites.iter().any(other);
        moved
    }
}

/// The most that values are apart that are not the same, each in its own bound; 0 for what f64 itself rounds otherwise.
pub(super) fn furthest(values: impl Iterator<Item = (f64, f64, f64)>) -> f64 {
    let apart = values.filter(|(a, b, _)| a.to_bits() != b.to_bits());
    let most = apart.map(|(a, b, bound)| ratio(a, b, bound)).fold(0.0, f64::max);
    if most < OWN { 0.0 } else { most }
}

/// Whether a comparison comes out badly.
fn is_bad(report: &SiteReport) -> bool {
    report.verdict >= Verdict::Suspicious
}

/// The place of a comparison.
pub(super) fn at(report: &SiteReport) -> At {
    At { step: report.step, site: report.site }
}

impl From<&SiteReport> for Evidence {
    fn from(report: &SiteReport) -> Self {
        Evidence {
            step: report.step,
            site: report.site,
            verdict: report.verdict,
            judged_by: report.judged_by,
            bounds: report.worst.as_ref().map(|worst| worst.ratio),
            off: if report.verdict == Verdict::Fault { report.faults } else { report.suspicious },
            count: report.count,
            structures: report.structures.clone(),
            note: report.note.clone(),
        }
    }
}

impl Moved {
    /// Whether anything is moved.
    pub fn is_any(&self) -> bool {
        self.bounds > 0.0 || self.choices
    }

    /// The further of two.
    pub(super) fn max(self, other: Self) -> Self {
        let further = if other.bounds > self.bounds { other } else { self };
        Moved { choices: self.choices || other.choices, ..further }
    }
}
