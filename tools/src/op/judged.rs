//! A candidate's outputs next to the reference's.

use reference::compare::Comparison;
use reference::profiles::PROFILES;
use reference::{RoundingContract, Storage};
use serde_json::json;

use super::given::Given;
use super::made::Made;
use super::operator::Operator;
use crate::compare::metrics::unravel;
use crate::failure::Failure;

/// An output of a candidate, as it was judged.
#[derive(Debug)]
pub struct Judged {
    /// Its name.
    pub name: &'static str,
    /// What rounding it is judged by.
    pub precision: String,
    /// What was found; of choices, row by row.
    pub found: Comparison,
    shape: Vec<usize>,
    chooses: bool,
}

/// Every output that a file has, by the precision that is named, or that documented one of its type by which the fewest values are
/// faults, the likeliest first.
pub fn judged(operator: &Operator, given: &Given, named: Option<&str>) -> Result<Vec<Judged>, Failure> {
    let shown: Vec<&str> =
        operator.signature.outputs.iter().map(|(name, _)| *name).filter(|name| given.has(name)).collect();
    let stored = shown.iter().find_map(|name| given.storage(name).ok()).unwrap_or(Storage::F32);
    let mut best: Vec<Judged> = Vec::new();
    for (precision, contract) in precisions(stored, named)? {
        let made = operator.compute(given, &contract)?;
        let shown = made.iter().filter(|made| given.has(made.name));
        let judged: Vec<Judged> = shown.map(|made| Judged::of(given, made, &precision)).collect::<Result<_, _>>()?;
        let faults = |judged: &[Judged]| judged.iter().map(|judged| judged.found.faults).sum::<usize>();
        if best.is_empty() || faults(&judged) < faults(&best) {
            best = judged;
        }
        if faults(&best) == 0 {
            break;
        }
    }
    Ok(best)
}

/// The precision that is named, or every documented one of a type.
fn precisions(stored: Storage, named: Option<&str>) -> Result<Vec<(String, RoundingContract)>, Failure> {
    if let Some(named) = named {
        return Ok(vec![(named.to_owned(), named.parse()?)]);
    }
    let mut ways = Vec::new();
    for profile in PROFILES.iter().filter(|profile| profile.contract.activations == stored) {
        ways.push((profile.name.to_owned(), profile.contract));
        for way in profile.modes.iter().copied().flatten() {
            ways.push((format!("{},{way}", profile.name), profile.contract.in_way(way)?));
        }
    }
    Ok(ways)
}

impl Judged {
    fn of(given: &Given, made: &Made, precision: &str) -> Result<Self, Failure> {
        let found = match made.chosen {
            Some(_) => made.compared_choices(&given.choices(made.name, made.value.dim())?),
            None => made.compared(&given.like(made.name, made.value.dim())?, given.storage(made.name)?),
        };
        let (precision, shape) = (precision.to_owned(), given.shape(made.name)?);
        Ok(Judged { name: made.name, precision, found, shape, chooses: made.chosen.is_some() })
    }

    /// The verdict.
    pub fn verdict(&self) -> &'static str {
        match (self.found.faults, self.found.suspicious) {
            (0, 0) if self.found.equal == self.found.count => "exact",
            (0, 0) => "within",
            (0, _) if self.chooses => "tie",
            (0, _) => "suspicious",
            _ => "fault",
        }
    }

    /// Where and how far the worst value is off.
    pub fn worst(&self) -> String {
        let Some(worst) = self.found.worst.filter(|worst| worst.ratio > 0.0) else { return String::new() };
        let columns = self.shape.last().copied().unwrap_or(1);
        let place = unravel(worst.at.0 * columns + worst.at.1, &self.shape);
        format!(
            "{:.2} of its bound at {place:?}: candidate {:e}, reference {:e}, allowed ±{:.3e}",
            worst.ratio, worst.candidate, worst.reference, worst.bound
        )
    }

    /// The same for programs.
    pub fn json(&self) -> serde_json::Value {
        let Comparison { count, equal, faults, suspicious, worst } = self.found;
        let worst = worst.map(|worst| {
            json!({ "row": worst.at.0, "column": worst.at.1, "candidate": worst.candidate, "reference": worst.reference,
                    "bound": worst.bound, "ratio": worst.ratio })
        });
        json!({ "output": self.name, "verdict": self.verdict(), "precision": self.precision, "count": count,
                "equal": equal, "faults": faults, "suspicious": suspicious, "worst": worst })
    }
}
