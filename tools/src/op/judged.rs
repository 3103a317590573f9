//! A candidate's outputs next to the reference's.

use fixtures::activations::dump::Dump;
use fixtures::golden::operators::Alone;
use ndarray::Array2;
use reference::compare::Comparison;
use reference::profiles::PROFILES;
use reference::{RoundingContract, Storage};
use serde_json::json;

use super::given::Given;
use super::list;
use super::made::{Chosen, Made};
use crate::compare::metrics::unravel;
use crate::failure::Failure;
use crate::judge::verdict::Verdict;

/// An output of a candidate, as it was judged.
#[derive(Debug)]
pub struct Judged {
    /// Its name.
    pub name: &'static str,
    /// What rounding it is judged by.
    pub precision: String,
    /// What is said of it.
    pub verdict: Verdict,
    /// What was found; of choices, row by row.
    pub found: Comparison,
    /// What else there is to say, in a sentence.
    pub note: Option<String>,
    shape: Vec<usize>,
    is_chosen: bool,
}

/// A precision, and what it is called.
pub type Precision = (String, RoundingContract);

/// Every output that a file has, by the precision that is named; else outputs of one type together, by that documented precision of
/// this type by which the fewest values are faults, the likeliest first. None of those takes anything in a narrower type: such a
/// precision has to be named, and a fault that it would explain says so.
pub fn judged(made: &[Made], given: &Given, named: Option<Precision>) -> Result<Vec<Judged>, Failure> {
    given.require_made(|name| made.iter().any(|made| made.name == name))?;
    let shown: Vec<&Made> = made.iter().filter(|made| given.has(made.name)).collect();
    if let Some(named) = named {
        return best(&shown, given, &[named]);
    }
    let (types, mut all) = (types(&shown, given)?, Vec::new());
    for stored in [Storage::F32, Storage::F16, Storage::Bf16] {
        let of_type = shown.iter().zip(&types).enumerate().filter(|(_, (_, own))| **own == stored);
        let (places, made): (Vec<usize>, Vec<&Made>) = of_type.map(|(place, (made, _))| (place, *made)).unzip();
        all.extend(places.into_iter().zip(of_type_alone(&made, given, stored)?));
    }
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().map(|(_, judged)| judged).collect())
}

/// What each output is stored in; what is chosen, and integers, count as the first of the others.
fn types(shown: &[&Made], given: &Given) -> Result<Vec<Storage>, Failure> {
    let own = |made: &&Made| if made.chosen.is_some() { Ok(Storage::Real) } else { given.storage(made.name) };
    let types = shown.iter().map(own).collect::<Result<Vec<_>, Failure>>()?;
    let first = types.iter().copied().find(|storage| *storage != Storage::Real).unwrap_or(Storage::F32);
    Ok(types.into_iter().map(|storage| if storage == Storage::Real { first } else { storage }).collect())
}

/// Outputs of one type by its documented precisions.
fn of_type_alone(shown: &[&Made], given: &Given, stored: Storage) -> Result<Vec<Judged>, Failure> {
    let (narrow, plain): (Vec<_>, Vec<_>) = documented(stored)?.into_iter().partition(|(_, how)| how.narrows());
    let mut found = best(shown, given, &plain)?;
    if faults(&found) == 0 {
        return Ok(found);
    }
    let other = best(shown, given, &narrow)?;
    if let Some(Judged { precision, .. }) = other.first().filter(|_| faults(&other) == 0) {
        let hint = format!("none would be outside with --precision {precision}");
        for judged in found.iter_mut().filter(|judged| judged.found.faults > 0) {
            judged.note = Some(judged.note.take().map_or_else(|| hint.clone(), |note| format!("{note}; {hint}")));
        }
    }
    Ok(found)
}

/// Outputs by that of these precisions by which the fewest values are faults, the first of equals.
fn best(shown: &[&Made], given: &Given, precisions: &[Precision]) -> Result<Vec<Judged>, Failure> {
    let mut best: Vec<Judged> = Vec::new();
    for (precision, contract) in precisions {
        let judged = shown.iter().map(|made| Judged::of(given, made, precision, contract));
        let judged = judged.collect::<Result<Vec<_>, Failure>>()?;
        if best.is_empty() || faults(&judged) < faults(&best) {
            best = judged;
        }
        if faults(&best) == 0 {
            break;
        }
    }
    Ok(best)
}

/// How many values are outside.
fn faults(judged: &[Judged]) -> usize {
    judged.iter().map(|judged| judged.found.faults).sum()
}

/// What a golden file's outputs are judged as.
pub fn of_golden(alone: &Alone, dump: Dump) -> Result<Vec<Judged>, Failure> {
    let operator = list::named(&alone.operator)?;
    let given = Given::of(&operator.signature, dump, &[])?;
    judged(&operator.compute(&given)?, &given, None)
}

/// Every documented precision of a type.
fn documented(stored: Storage) -> Result<Vec<Precision>, Failure> {
    let mut ways = Vec::new();
    for profile in PROFILES.iter().filter(|profile| profile.contract.activations == stored) {
        ways.push((profile.name.to_owned(), profile.contract));
        for way in profile.modes.iter().copied().flatten() {
            ways.push((format!("{},{way}", profile.name), profile.contract.in_way(way)?));
        }
    }
    Ok(ways)
}

/// What was found, the verdict, and what else there is to say.
type Found = (Comparison, Verdict, Option<String>);

fn of_choices(given: &Given, made: &Made, chosen: &Chosen, contract: &RoundingContract) -> Result<Found, Failure> {
    let (found, wrong) = made.compared_choices(chosen, &given.choices(made.name, made.value.nrows())?, contract);
    let verdict = match (found.faults, found.suspicious) {
        (0, 0) => Verdict::Exact,
        (0, _) => Verdict::Tie,
        _ => Verdict::Fault,
    };
    Ok((found, verdict, wrong))
}

fn of_values(given: &Given, made: &Made, contract: &RoundingContract) -> Result<Found, Failure> {
    let found = made.compared(&given.like(made.name, made.value.dim())?, given.storage(made.name)?, contract);
    let norm = |x: &Array2<f64>| x.iter().map(|x| x * x).sum::<f64>();
    let is_vacuous = || norm(&made.bound(contract).certain) > norm(&made.value);
    let (verdict, note) = match (found.faults, found.suspicious) {
        (0, _) if found.equal == found.count => (Verdict::Exact, None),
        (0, 0) if is_vacuous() => (Verdict::Inconclusive, Some("the error bound is above the signal".to_owned())),
        (0, 0) => (Verdict::Within, None),
        (0, _) => (Verdict::Suspicious, None),
        _ => (Verdict::Fault, None),
    };
    Ok((found, verdict, note))
}

impl Judged {
    fn of(given: &Given, made: &Made, precision: &str, contract: &RoundingContract) -> Result<Self, Failure> {
        let (found, verdict, note) = match &made.chosen {
            Some(chosen) => of_choices(given, made, chosen, contract)?,
            None => of_values(given, made, contract)?,
        };
        let (precision, shape) = (precision.to_owned(), given.shape(made.name)?);
        Ok(Judged { name: made.name, precision, verdict, found, note, shape, is_chosen: made.chosen.is_some() })
    }

    /// Whether it has choices, and no values.
    pub fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Where and how far the worst value is off, and what else there is to say.
    pub fn worst(&self) -> String {
        let worst = self.found.worst.filter(|worst| worst.ratio > 0.0).map(|worst| {
            let columns = self.shape.last().copied().unwrap_or(1);
            let place = unravel(worst.at.0 * columns + worst.at.1, &self.shape);
            format!(
                "{:.2} of its bound at {place:?}: candidate {:e}, reference {:e}, allowed ±{:.3e}",
                worst.ratio, worst.candidate, worst.reference, worst.bound
            )
        });
        worst.into_iter().chain(self.note.clone()).collect::<Vec<_>>().join("; ")
    }

    /// The same for programs.
    pub fn json(&self) -> serde_json::Value {
        let Comparison { count, equal, faults, suspicious, worst } = self.found;
        let worst = worst.map(|worst| {
            json!({ "row": worst.at.0, "column": worst.at.1, "candidate": worst.candidate, "reference": worst.reference,
                    "bound": worst.bound, "ratio": worst.ratio })
        });
        json!({ "output": self.name, "verdict": self.verdict, "precision": self.precision, "count": count,
                "equal": equal, "faults": faults, "suspicious": suspicious, "worst": worst, "note": self.note })
    }
}
