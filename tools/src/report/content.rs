//! What a report holds: what was compared, every judged site, what was decoded.

use std::collections::BTreeSet;
use std::iter;

use reference::{RoundingContract, Semantics, Site};
use serde::Serialize;

use super::pictures::TowerPass;
use super::place;
use crate::judge::decoded::Decoded;
use crate::judge::verdict::{SiteReport, Verdict};

/// A comparison of one candidate with the reference.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The schema of this report as JSON.
    pub schema: u32,
    /// What is compared.
    pub header: Header,
    /// Every judged site under every lens.
    pub sites: Vec<SiteReport>,
    /// Sites that the candidate does not show.
    #[serde(serialize_with = "as_paths")]
    pub missing: BTreeSet<Site>,
    /// The decoded tokens, where there are any.
    pub decode: Option<Decoded>,
}

/// What is compared.
#[derive(Debug, Clone, Serialize)]
pub struct Header {
    /// The model's name or folder.
    pub model: String,
    /// Its size, in words.
    pub size: String,
    /// The candidate, and who made it.
    pub candidate: String,
    /// How the candidate rounds.
    #[serde(serialize_with = "as_text")]
    pub contract: RoundingContract,
    /// From where that is known.
    pub contract_from: String,
    /// The reading of the documents.
    #[serde(serialize_with = "as_text")]
    pub semantics: Semantics,
    /// Tokens of each forward pass.
    pub steps: Vec<usize>,
    /// What the prompt shows, pass by pass through the vision tower.
    pub shown: Vec<TowerPass>,
    /// Layers of the model.
    pub layers: usize,
    /// Channels of an attention head.
    pub head_dim: usize,
    /// What else the reader should know, a sentence each.
    pub notes: Vec<String>,
    /// The command that was run, without what restricts it to sites.
    pub command: String,
}

/// The version of the JSON schema.
pub const SCHEMA: u32 = 1;

impl Header {
    /// What was read, in words.
    pub(super) fn prompt(&self) -> String {
        let tokens = match self.steps[..] {
            [one] => format!("{one} tokens"),
            _ => format!("{} tokens in {} passes", self.steps.iter().sum::<usize>(), self.steps.len()),
        };
        iter::once(tokens).chain(self.shown.iter().map(TowerPass::told)).collect::<Vec<_>>().join(", ")
    }
}

impl Report {
    /// The worst verdict of all.
    pub fn verdict(&self) -> Verdict {
        let sites = self.sites.iter().map(|site| site.verdict).max();
        sites.max(self.decode.as_ref().map(Decoded::verdict)).unwrap_or(Verdict::Missing)
    }

    /// Keeps only what `keep` accepts.
    pub fn retain(&mut self, keep: impl Fn(Site) -> bool) {
        self.sites.retain(|report| keep(report.site));
        self.missing.retain(|site| keep(*site));
    }

    /// How many sites have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.sites.iter().filter(|site| site.verdict == verdict).count()
    }

    /// The command that runs just this site again.
    pub fn again(&self, site: Site) -> String {
        format!("{} --sites '{site}'", self.header.command)
    }

    /// Sites that the candidate could have shown, by kind.
    pub fn missing_kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = Vec::new();
        for site in self.missing.iter().filter(|site| !site.on_request()) {
            let kind = place::kind(*site);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// How many values under the local lens are those of the candidate's twin, and how many are expected to be, of all.
    pub fn twin(&self) -> Option<[f64; 3]> {
        let agreements = || self.sites.iter().filter_map(|site| site.twin.as_ref());
        let count: usize = agreements().map(|a| a.count).sum();
        let equal: usize = agreements().map(|a| a.equal).sum();
        let expected: f64 = agreements().map(|a| a.count as f64 - a.unequal_expected).sum();
        (count > 0).then_some([equal as f64, expected, count as f64])
    }

    /// Faults, in the order in which a token meets them, the local lens first: it names the operator.
    pub fn faults(&self) -> Vec<&SiteReport> {
        let mut faults: Vec<&SiteReport> = self.sites.iter().filter(|s| s.verdict == Verdict::Fault).collect();
        faults.sort_by_key(|report| lens_order(report));
        faults
    }
}

fn lens_order(report: &SiteReport) -> usize {
    use crate::judge::lens::Lens::{Global, Layer, Local};
    [Local, Layer, Global].iter().position(|lens| *lens == report.lens).unwrap_or(0)
}

fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_paths<S: serde::Serializer>(sites: &BTreeSet<Site>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sites.iter().map(ToString::to_string))
}
