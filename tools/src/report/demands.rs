//! What is demanded of a report beside that it has no fault.

use std::collections::BTreeSet;

use clap::ValueEnum;
use globset::GlobSet;
use reference::Site;

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
#[derive(Debug, Clone, Default)]
pub struct Demands {
    required: Vec<(String, GlobSet)>,
    /// Verdicts that count as faults.
    pub denied: Vec<Verdict>,
}

impl Demands {
    /// From patterns, `all` among them for every operator, and verdicts.
    pub fn parse(require: &[String], deny: &[Denied]) -> Result<Self, Failure> {
        let of = |pattern: &String| {
            let any = if pattern == "all" { "*".to_owned() } else { pattern.clone() };
            Ok((pattern.clone(), patterns("--require", std::slice::from_ref(&any))?))
        };
        let required = require.iter().map(of).collect::<Result<_, Failure>>()?;
        Ok(Demands { required, denied: deny.iter().map(|denied| denied.verdict()).collect() })
    }

    /// The operators that are required and were not compared. Refused, if a pattern fits no operator of the model.
    pub(super) fn unmet(&self, coverage: &Coverage) -> Result<BTreeSet<Site>, Failure> {
        let mut unmet = BTreeSet::new();
        for (pattern, sites) in &self.required {
            let fits = |site: &Site| sites.is_match(site.to_string());
            if !coverage.operators.iter().any(fits) {
                let all = coverage.operators.len();
                let problem =
                    format!("--require {pattern}: fits none of the {all} operators that the model has on this prompt");
                return Err(Failure::new(problem).help("give `all`, or a pattern such as 'layers.*.self_attn.*'"));
            }
            unmet.extend(coverage.missed().filter(fits));
        }
        Ok(unmet)
    }
}
