//! What a report holds: what was compared, every judged site, what was decoded.

use std::collections::BTreeSet;

use reference::Site;
use serde::Serialize;
use strum::Display;

use super::coverage::Coverage;
use super::demands::Demands;
use super::figures::counted;
pub use super::header::Header;
use super::{hints, place, roundings};
use crate::compare::selection::Selection;
use crate::diagnose::detection::Detection;
use crate::failure::Failure;
use crate::judge::agreement::Agreement;
use crate::judge::decoded::Decoded;
use crate::judge::exact::Exactness;
use crate::judge::found::Found;
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
    pub missing: BTreeSet<Site>,
    /// How much of the model was compared.
    pub coverage: Coverage,
    /// Operators that were required and not compared.
    pub unmet: BTreeSet<Site>,
    /// Verdicts that count as faults, beside that.
    pub denied: Vec<Verdict>,
    /// The decoded tokens, where there are any.
    pub decode: Option<Decoded>,
    /// How the values stand to those of the candidate's exact twin, where its sums are our kernels'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<Exactness>,
    /// What the candidate's values can show, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detection: Option<Detection>,
}

/// A report in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Conclusion {
    /// No fault, and nothing suspicious.
    Pass,
    /// No comparison says anything, as bounds are above the signal; or it is open what was compared.
    Inconclusive,
    /// No fault, but values that are further off than independent roundings come.
    Suspicious,
    /// A fault, or what counts as one.
    Fail,
}

/// The version of the JSON schema.
pub const SCHEMA: u32 = 3;

impl Report {
    /// What was found at the selected sites of a model that has these operators. Refused if nothing was compared there.
    pub fn of(
        mut header: Header,
        found: Found,
        selection: &Selection,
        operators: BTreeSet<Site>,
    ) -> Result<Self, Failure> {
        let Found { mut sites, mut missing, .. } = found;
        let shown: BTreeSet<Site> = sites.iter().map(|report| report.site).collect();
        sites.retain(|report| selection.has(report.site));
        missing.retain(|site| selection.has(*site));
        if sites.is_empty() {
            return Err(nothing_compared(&header, &shown, selection));
        }
        let coverage = Coverage::of(operators, &header, &sites);
        let (unmet, denied) = (BTreeSet::new(), Vec::new());
        let (decode, exact, detection) = (None, None, None);
        header.notes.extend(roundings::elsewhere(&header, &sites));
        header.notes.extend(hints::of(&sites));
        Ok(Report { schema: SCHEMA, header, sites, missing, coverage, unmet, denied, decode, exact, detection })
    }

    /// Holds it to demands.
    pub fn hold_to(&mut self, demands: &Demands) {
        self.unmet = demands.unmet(&self.coverage);
        self.denied.clone_from(&demands.denied);
    }

    /// What to make of it as a whole.
    pub fn conclusion(&self) -> Conclusion {
        let decode = self.decode.as_ref().is_some_and(|decoded| decoded.verdict() == Verdict::Fault);
        let is_denied = self.denied.iter().any(|verdict| self.count(*verdict) > 0);
        if decode || self.not_exact() > 0 || is_denied || !self.unmet.is_empty() || self.count(Verdict::Fault) > 0 {
            Conclusion::Fail
        } else if self.count(Verdict::Suspicious) > 0 {
            Conclusion::Suspicious
        } else if self.header.unsure.is_some() || self.says_nothing() {
            Conclusion::Inconclusive
        } else {
            Conclusion::Pass
        }
    }

    /// Whether no comparison says anything, and no decoded token does.
    fn says_nothing(&self) -> bool {
        let of_tokens = self.decode.as_ref().is_some_and(Decoded::says_something);
        !of_tokens && self.count(Verdict::Inconclusive) == self.sites.len()
    }

    /// Why nothing can be concluded, and what to do, if that is so.
    pub(super) fn why_inconclusive(&self) -> Option<String> {
        if self.conclusion() != Conclusion::Inconclusive {
            return None;
        }
        if let Some(unsure) = &self.header.unsure {
            return Some(unsure.clone());
        }
        let why = self.sites.iter().find_map(|site| site.note.as_deref());
        Some(format!(
            "no comparison says anything: {}\ndump more: every layer's output tells the layer, every module's (tools/capture) the \
             operator",
            why.unwrap_or("bounds are above the signal")
        ))
    }

    /// How many sites have a verdict; those that are missing are counted once for all forward passes.
    pub fn count(&self, verdict: Verdict) -> usize {
        match verdict {
            Verdict::Missing => self.missing.iter().filter(|site| !site.on_request()).count(),
            _ => self.sites.iter().filter(|site| site.verdict == verdict).count(),
        }
    }

    /// Sites that differ from the exact twin and must not.
    pub(super) fn not_exact(&self) -> usize {
        self.exact.as_ref().filter(|exact| exact.is_fault()).map_or(0, |exact| exact.differing().count())
    }

    /// How many sites have which verdict, in words, each with the verdict.
    pub(super) fn counts(&self) -> Vec<(Verdict, String)> {
        use Verdict::{Exact, Fault, Inconclusive, Suspicious, Tie, Within};
        let counts =
            [Exact, Within, Tie, Inconclusive, Suspicious, Fault].map(|verdict| (verdict, self.count(verdict)));
        let told = |(verdict, n)| match verdict {
            Tie | Fault => (verdict, counted(n, &verdict.to_string())),
            _ => (verdict, format!("{n} {verdict}")),
        };
        counts.into_iter().filter(|(_, n)| *n > 0).map(told).collect()
    }

    /// What fails it though no comparison does, in sentences.
    pub(super) fn other_failures(&self) -> Vec<String> {
        let unmet: Vec<String> = self.unmet.iter().map(ToString::to_string).collect();
        let required = format!("required and not compared: {}", unmet.join(", "));
        let denied = self.denied.iter().filter(|verdict| self.count(**verdict) > 0);
        let denied = denied.map(|verdict| format!("denied: {} {verdict}", self.count(*verdict)));
        let inexact = self.not_exact();
        let inexact = (inexact > 0).then(|| format!("{} not the exact twin's", counted(inexact, "site")));
        (!unmet.is_empty()).then_some(required).into_iter().chain(denied).chain(inexact).collect()
    }

    /// The command that runs just this site again, or the call in Python, where that was made.
    pub fn again(&self, site: Site) -> String {
        let command = &self.header.command;
        match command.strip_suffix(')').filter(|call| call.starts_with("parity.")) {
            Some(call) => format!("{call}, sites='{site}')"),
            None => format!("{command} --sites '{site}'"),
        }
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
        let all = self.sites.iter().filter_map(|site| site.twin).reduce(Agreement::with);
        let of_all = all.filter(|all| all.count > 0);
        of_all.map(|all| [all.equal as f64, all.count as f64 - all.unequal_expected, all.count as f64])
    }

    /// Faults, in the order in which a token meets them, the local lens first: it names the operator.
    pub fn faults(&self) -> Vec<&SiteReport> {
        let mut faults: Vec<&SiteReport> = self.sites.iter().filter(|s| s.verdict == Verdict::Fault).collect();
        faults.sort_by_key(|report| lens_order(report));
        faults
    }
}

/// Says what was selected, and what there is.
fn nothing_compared(header: &Header, shown: &BTreeSet<Site>, selection: &Selection) -> Failure {
    let there = match (shown.first(), shown.last()) {
        (Some(first), Some(last)) => {
            format!(
                "the candidate shows {} of {} layers, from {first} to {last}",
                counted(shown.len(), "site"),
                header.layers
            )
        }
        _ => format!("the candidate shows no site there, of {}", counted(header.layers, "layer")),
    };
    let selected = if selection.is_all() { "everything".to_owned() } else { selection.to_string() };
    let problem = format!("nothing was compared: {selected} was selected, and {there}");
    Failure::new(problem).help("widen --layers or --sites, or see `parity show DUMP` for what a dump has")
}

fn lens_order(report: &SiteReport) -> usize {
    use crate::judge::lens::Lens::{Global, Layer, Local};
    [Local, Layer, Global].iter().position(|lens| *lens == report.lens).unwrap_or(0)
}
