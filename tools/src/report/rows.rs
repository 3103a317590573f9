//! Results as rows, one a site, lens and statistic, for what asks tables.

use ciborium::Value;
use serde::Serialize;

use super::content::Report;
use super::place::kind;
use crate::compare::difference::Difference;
use crate::judge::exact::Bits;
use crate::judge::verdict::Verdict;
use crate::op::judged::Judged;

/// What the rows of one site under one lens have in common, and their figures.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The model.
    pub model: Option<String>,
    /// The candidate; of two dumps, the first.
    pub candidate: String,
    /// Of two dumps, the second.
    pub baseline: Option<String>,
    /// How the candidate rounds.
    pub precision: Option<String>,
    /// The request, from 0.
    pub request: Option<usize>,
    /// The forward pass, from 0.
    pub step: Option<usize>,
    /// The layer.
    pub layer: Option<usize>,
    /// The site's path, or a tensor's name.
    pub site: String,
    /// The path inside its layer, or an operator alone.
    pub operator: Option<String>,
    /// The lens, or `exact` for the exact twin.
    pub lens: Option<String>,
    /// What is said of the site.
    pub verdict: Option<String>,
    /// Each statistic by its path in the JSON of the site, and its value.
    pub statistics: Vec<(String, f64)>,
}

/// The rows of reports, one a request.
pub fn of_reports(reports: &[Report]) -> Vec<Rows> {
    reports.iter().enumerate().flat_map(|(request, report)| of_report(request, report)).collect()
}

/// The rows of two dumps side by side.
pub fn of_difference(difference: &Difference) -> Vec<Rows> {
    let of = |pair: &crate::compare::difference::Pair| Rows {
        candidate: difference.a.clone(),
        baseline: Some(difference.b.clone()),
        site: pair.name.clone(),
        verdict: pair.fault().map(|_| Verdict::Fault.to_string()),
        statistics: statistics(pair),
        ..Rows::default()
    };
    difference.pairs.iter().map(of).collect()
}

/// The rows of an operator alone, of a file.
pub fn of_operator(operator: &str, file: &str, judged: &[Judged]) -> Vec<Rows> {
    let of = |judged: &Judged| Rows {
        candidate: file.to_owned(),
        precision: Some(judged.precision.clone()),
        site: judged.name.to_owned(),
        operator: Some(operator.to_owned()),
        verdict: Some(judged.verdict.to_string()),
        statistics: statistics(&judged.json()),
        ..Rows::default()
    };
    judged.iter().map(of).collect()
}

fn of_report(request: usize, report: &Report) -> Vec<Rows> {
    let header = &report.header;
    let of = |site: reference::Site| Rows {
        model: Some(header.model.clone()),
        candidate: header.candidate.clone(),
        precision: Some(header.precision.to_string()),
        request: Some(request),
        layer: site.layer(),
        site: site.to_string(),
        operator: Some(kind(site)),
        ..Rows::default()
    };
    let judged = report.sites.iter().map(|judged| Rows {
        step: Some(judged.step),
        lens: Some(judged.lens.to_string()),
        verdict: Some(judged.verdict.to_string()),
        statistics: statistics(judged),
        ..of(judged.site)
    });
    let none = || vec![("count".to_owned(), 0.0)];
    let missing = report.missing.iter().filter(|site| !site.on_request());
    let missing = missing.map(|site| {
        let verdict = Some(Verdict::Missing.to_string());
        Rows { verdict, statistics: none(), ..of(*site) }
    });
    let exact = report.exact.iter().flat_map(|exact| exact.sites.iter().map(|bits| (exact.binding, bits)));
    let exact = exact.map(|(binding, bits)| Rows {
        step: Some(bits.step),
        lens: Some("exact".to_owned()),
        verdict: verdict_of(binding, bits).map(|verdict| verdict.to_string()),
        statistics: statistics(bits),
        ..of(bits.site)
    });
    judged.chain(missing).chain(exact).collect()
}

/// What is said of a site beside its exact twin's: nothing, where the two may differ.
fn verdict_of(binding: bool, bits: &Bits) -> Option<Verdict> {
    let differs = bits.equal < bits.count;
    if differs { binding.then_some(Verdict::Fault) } else { Some(Verdict::Exact) }
}

/// The numbers of a value as it is serialized, by their paths: those of lists only where all of a list are numbers.
fn statistics(of: &impl Serialize) -> Vec<(String, f64)> {
    let value = Value::serialized(of).expect("what is in reports can be serialized");
    let mut found = Vec::new();
    collect("", &value, &mut found);
    found.retain(|(path, _)| path != "step");
    found
}

fn collect(path: &str, value: &Value, found: &mut Vec<(String, f64)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Integer(whole) => {
            // Counts are below 2⁵³.
            found.push((path.to_owned(), i128::from(*whole) as f64));
        }
        Value::Float(x) => found.push((path.to_owned(), *x)),
        Value::Map(fields) => {
            let named = fields.iter().filter_map(|(name, value)| Some((name.as_text()?, value)));
            named.for_each(|(name, value)| collect(&below(name), value, found));
        }
        Value::Array(list) if list.iter().all(is_numeric) => {
            list.iter().enumerate().for_each(|(i, value)| collect(&below(&i.to_string()), value, found));
        }
        _ => {}
    }
}

fn is_numeric(value: &Value) -> bool {
    match value {
        Value::Integer(_) | Value::Float(_) => true,
        Value::Array(list) => list.iter().all(is_numeric),
        _ => false,
    }
}
