//! What is demanded of a report beside that it has no fault.

use std::collections::BTreeSet;
use std::fmt;

use clap::ValueEnum;
use globset::GlobSet;
use reference::Site;
use serde::{Deserialize, Serialize};

use super::coverage::Coverage;
use crate::compare::selection::patterns;
use crate::failure::Failure;
use crate::judge::verdict::Verdict;

/// A verdict that may count as a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Denied {
    /// Possible, but further off than independent roundings come.
    Suspicious,
    /// The comparison says nothing.
    Inconclusive,
    /// The candidate does not show a value.
    Missing,
}

impl Denied {
    /// The verdict.
    pub fn verdict(self) -> Verdict {
        match self {
            Denied::Suspicious => Verdict::Suspicious,
            Denied::Inconclusive => Verdict::Inconclusive,
            Denied::Missing => Verdict::Missing,
        }
    }
}

/// What must be compared, and what must not be found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Typed", into = "Typed")]
pub struct Demands {
    required: Vec<(String, GlobSet)>,
    /// Verdicts that count as faults.
    pub denied: Vec<Verdict>,
}

/// What was typed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Typed {
    require: Vec<String>,
    deny: Vec<Verdict>,
}

impl Demands {
    /// From patterns, `all` among them for every operator, and verdicts.
    pub fn parse(require: &[String], denied: &[Verdict]) -> Result<Self, Failure> {
        let of = |pattern: &String| {
            let any = if pattern == "all" { "*".to_owned() } else { pattern.clone() };
            Ok((pattern.clone(), patterns("--require", std::slice::from_ref(&any))?))
        };
        let required = require.iter().map(of).collect::<Result<_, Failure>>()?;
        Ok(Demands { required, denied: denied.to_vec() })
    }

    /// Refused, if a pattern fits none of the model's operators.
    pub fn require_possible(&self, operators: &BTreeSet<Site>) -> Result<(), Failure> {
        let fits_none = |sites: &GlobSet| !operators.iter().any(|site| sites.is_match(site.to_string()));
        let Some((pattern, _)) = self.required.iter().find(|(_, sites)| fits_none(sites)) else { return Ok(()) };
        let all = operators.len();
        let problem =
            format!("--require {pattern}: fits none of the {all} operators that the model has on this prompt");
        Err(Failure::new(problem).help("give `all`, or a pattern such as 'layers.*.self_attn.*'"))
    }

    /// The same without patterns that fit none of these operators.
    #[must_use]
    pub fn possible(&self, operators: &BTreeSet<Site>) -> Self {
        let fits = |sites: &GlobSet| operators.iter().any(|site| sites.is_match(site.to_string()));
        let required = self.required.iter().filter(|(_, sites)| fits(sites)).cloned().collect();
        Demands { required, denied: self.denied.clone() }
    }

    /// The operators that are required and were not compared.
    pub(super) fn unmet(&self, coverage: &Coverage) -> BTreeSet<Site> {
        let is_required = |site: &Site| self.required.iter().any(|(_, sites)| sites.is_match(site.to_string()));
        coverage.missed().filter(is_required).collect()
    }
}

/// The options again, as they were typed.
impl fmt::Display for Demands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let required = self.required.iter().map(|(pattern, _)| format!("--require '{pattern}'"));
        let denied = self.denied.iter().map(|denied| format!("--deny {denied}"));
        f.write_str(&required.chain(denied).collect::<Vec<String>>().join(" "))
    }
}

impl TryFrom<Typed> for Demands {
    type Error = Failure;

    fn try_from(Typed { require, deny }: Typed) -> Result<Self, Failure> {
        Demands::parse(&require, &deny)
    }
}

impl From<Demands> for Typed {
    fn from(Demands { required, denied }: Demands) -> Self {
        Typed { require: required.into_iter().map(|(pattern, _)| pattern).collect(), deny: denied }
    }
}
