//! What was found, whole or in parts: some lenses, some layers. Parts are joined, in whatever order they were found.

use std::collections::{BTreeMap, BTreeSet};

use reference::site::VisionSite;
use reference::{LayerSite, Site};
use serde::{Deserialize, Serialize};

use super::chosen::Chosen;
use super::judging::Kept;
use super::lens::Lens;
use super::percentile;
use super::significance::{self, SiteTests, Suspicion};
use super::spread::Spread;
use super::verdict::{SiteReport, Top, Verdict};

/// What is said of a place that has other values than the twin in every layer.
const EVERYWHERE: &str =
    "so in every layer that shows it, as where a candidate rounds otherwise than this precision does";

/// What was found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Found {
    /// Every judged site under every lens, in the order in which a token meets them.
    pub sites: Vec<SiteReport>,
    /// Sites that the candidate does not show.
    pub missing: BTreeSet<Site>,
    /// The values that were to be kept.
    pub kept: Option<Kept>,
    /// What only all parts together tell.
    pub(crate) open: Open,
}

/// The same as it is stored: a site's report with what a report in JSON leaves out; values that were to be kept are not.
#[derive(Serialize, Deserialize)]
struct Stored {
    sites: Vec<StoredSite>,
    missing: BTreeSet<Site>,
    open: Open,
}

/// A site's report, and what it leaves out.
#[derive(Serialize, Deserialize)]
struct StoredSite {
    report: SiteReport,
    spread: Option<Spread>,
    chosen: Option<Chosen>,
    tops: Vec<Top>,
}

/// What says something of sites only when all that was found is known.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Open {
    /// How much of the deviation at the output of a forward pass's layer came in with its input: pass, layer, share.
    pub(crate) carried: Vec<(usize, usize, f64)>,
    /// What each site says of structure.
    pub(crate) tests: BTreeMap<Site, SiteTests>,
    /// Of sites with other values than the twin, what number of the configuration they have otherwise.
    pub(crate) displaced: BTreeMap<Site, String>,
}

impl From<Found> for Stored {
    fn from(Found { sites, missing, open, .. }: Found) -> Self {
        let of_site = |mut report: SiteReport| {
            let (spread, chosen, tops) = (report.spread.take(), report.chosen.take(), std::mem::take(&mut report.tops));
            StoredSite { report, spread, chosen, tops }
        };
        Stored { sites: sites.into_iter().map(of_site).collect(), missing, open }
    }
}

impl From<Stored> for Found {
    fn from(Stored { sites, missing, open }: Stored) -> Self {
        let of_site = |StoredSite { report, spread, chosen, tops }| SiteReport { spread, chosen, tops, ..report };
        Found { sites: sites.into_iter().map(of_site).collect(), missing, open, kept: None }
    }
}

impl Found {
    /// What is said of sites, in the order in which a token meets them.
    pub fn of(sites: Vec<SiteReport>) -> Self {
        Found { sites, ..Found::default() }
    }

    /// What it says of some sites.
    #[must_use]
    pub(crate) fn within(mut self, own: impl Fn(Site) -> bool) -> Self {
        self.sites.retain(|report| own(report.site));
        self.missing.retain(|site| own(*site));
        self.open.carried.retain(|(_, layer, _)| own(Site::Layer(*layer, LayerSite::Output)));
        self.open.tests.retain(|site, _| own(*site));
        self.open.displaced.retain(|site, _| own(*site));
        self
    }

    /// Adds another part.
    pub fn add(&mut self, part: Found) {
        self.sites.extend(part.sites);
        self.missing.extend(part.missing);
        self.open.carried.extend(part.open.carried);
        self.open.tests.extend(part.open.tests);
        self.open.displaced.extend(part.open.displaced);
    }

    /// What the local lens says of a site first.
    fn local(&mut self, site: Site) -> Option<&mut SiteReport> {
        self.sites.iter_mut().find(|report| report.site == site && report.lens == Lens::Local)
    }

    /// Says what only all parts together tell, once all are there: what layers carry, structures, and what strays in every
    /// layer.
    #[must_use]
    pub fn concluded(mut self) -> Self {
        self.sites.sort_by_key(|report| (report.step, phase(report.site), report.lens, report.site));
        let Open { carried, tests, displaced } = std::mem::take(&mut self.open);
        for (step, layer, share) in carried {
            let site = Site::Layer(layer, LayerSite::Output);
            let mut of_layer = self.sites.iter_mut().filter(|report| (report.step, report.site) == (step, site));
            if let Some(report) = of_layer.find(|report| report.lens == Lens::Layer) {
                report.carried = Some(share);
            }
        }
        for (site, Suspicion { structures, is_everywhere }) in significance::found(&tests) {
            if let Some(report) = self.local(site) {
                report.verdict = report.verdict.max(Verdict::Suspicious);
                report.structures = structures;
                let told = is_everywhere.then(|| EVERYWHERE.to_owned());
                report.note = joined([told, report.note.take()]);
            }
        }
        for (site, hint) in significance::hints(&tests) {
            if let Some(report) = self.local(site).filter(|report| report.verdict < Verdict::Suspicious) {
                report.hint = Some(hint);
            }
        }
        for (site, told) in displaced {
            if let Some(report) = self.local(site) {
                report.verdict = report.verdict.max(Verdict::Suspicious);
                report.note = joined([Some(told), report.note.take()]);
            }
        }
        percentile::mark(&mut self.sites);
        self
    }
}

/// Notes in one.
fn joined(notes: [Option<String>; 2]) -> Option<String> {
    let all: Vec<String> = notes.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A part of a forward pass, in the order in which a token goes through them: passes through the tower and its layers, the
/// embedding, layers, the head. All that one lens sees there stands together.
pub(crate) fn phase(site: Site) -> (usize, usize, usize) {
    use VisionSite::{Embeddings, PreNorm, RopeCos, RopeSin};
    match site {
        Site::Vision(pass, VisionSite::Layer(layer, _)) => (0, pass, 1 + layer),
        Site::Vision(pass, Embeddings | RopeCos | RopeSin | PreNorm) => (0, pass, 0),
        Site::Vision(pass, _) => (0, pass, usize::MAX),
        Site::Embedding | Site::Module(_) | Site::InputsEmbeds | Site::RopeCos | Site::RopeSin => (1, 0, 0),
        Site::Layer(layer, _) => (2, layer, 0),
        Site::FinalNorm | Site::LmHead | Site::Logits => (3, 0, 0),
    }
}
