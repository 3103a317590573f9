//! How much of a model was compared: its operators, each alone or within a segment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use reference::Site;
use reference::config::Config;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::header::Header;
use crate::judge::lens::Lens;
use crate::judge::verdict::{JudgedBy, SiteReport};

/// The operators of a model by how the local lens compared them: in every forward pass that has them, or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Every operator that runs on this prompt, by the site of its output.
    pub operators: BTreeSet<Site>,
    /// Recomputed from the candidate's own inputs to it.
    pub alone: BTreeSet<Site>,
    /// Recomputed together with its neighbours, since the candidate does not show what is between them. A segment ends with
    /// its layer; noise that was measured over more than that is no comparison of the operators below it.
    pub within: BTreeSet<Site>,
}

/// The forward passes in which an operator was compared.
#[derive(Default)]
struct Steps {
    alone: BTreeSet<usize>,
    any: BTreeSet<usize>,
}

impl Coverage {
    /// Of what was compared of a model that has these operators.
    pub fn of(operators: BTreeSet<Site>, header: &Header, sites: &[SiteReport]) -> Self {
        let mut steps: BTreeMap<Site, Steps> = BTreeMap::new();
        for report in sites.iter().filter(|report| report.lens == Lens::Local) {
            let own = operator(report.site);
            let segment: BTreeSet<Site> = report.segment.iter().map(|site| operator(*site)).collect();
            let is_alone =
                segment.iter().all(|site| *site == own) && !matches!(report.judged_by, JudgedBy::NoiseFloor(_));
            for site in segment.into_iter().chain([own]) {
                let steps = steps.entry(site).or_default();
                steps.any.insert(report.step);
                if is_alone {
                    steps.alone.insert(report.step);
                }
            }
        }
        let compared = |site: &Site, of: fn(&Steps) -> &BTreeSet<usize>| {
            let passes = if is_of_first_pass(*site) { 1 } else { header.steps.len() };
            steps.get(site).is_some_and(|steps| of(steps).len() >= passes)
        };
        let alone: BTreeSet<Site> =
            operators.iter().copied().filter(|site| compared(site, |steps| &steps.alone)).collect();
        let within = operators.iter().copied().filter(|site| compared(site, |steps| &steps.any));
        let within = within.filter(|site| !alone.contains(site)).collect();
        Coverage { operators, alone, within }
    }

    /// The operators that were not compared.
    pub fn missed(&self) -> impl Iterator<Item = Site> + '_ {
        self.operators.iter().copied().filter(|site| !self.alone.contains(site) && !self.within.contains(site))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (alone, within, all) = (self.alone.len(), self.within.len(), self.operators.len());
        write!(f, "{} of {all} operators compared ({alone} alone, {within} within segments)", alone + within)
    }
}

impl Serialize for Coverage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Coverage", 4)?;
        fields.serialize_field("operators", &self.operators.len())?;
        fields.serialize_field("alone", &self.alone.len())?;
        fields.serialize_field("within_segments", &self.within.len())?;
        fields.serialize_field("not_compared", &self.missed().map(|site| site.to_string()).collect::<Vec<_>>())?;
        fields.end()
    }
}

/// The operators of a model that has `passes` passes through its vision tower. A value that is only made on request belongs
/// to the operator that reads it.
pub fn operators(config: &Config, passes: usize) -> BTreeSet<Site> {
    let of_passes = |site| match site {
        Site::Vision(_, site) => (0..passes).map(|pass| Site::Vision(pass, site)).collect(),
        site => vec![site],
    };
    let runs = |site: &Site| {
        let is_seen = *site != Site::InputsEmbeds || passes > 0 || config.module.is_some();
        operator(*site) == *site && !site.on_request() && is_seen
    };
    Site::all(config).flat_map(of_passes).filter(runs).collect()
}

/// The site of the operator that computes the value; what the model returns is the head's output again.
fn operator(site: Site) -> Site {
    if site == Site::Logits { Site::LmHead } else { site }
}

/// Whether the operator runs before the first tokens alone.
fn is_of_first_pass(site: Site) -> bool {
    matches!(site, Site::Vision(..) | Site::InputsEmbeds)
}
