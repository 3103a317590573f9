//! The report for GitHub Actions: annotations of a step, and its summary.
//!
//! Source: *Workflow commands for GitHub Actions* of GitHub's documentation; what is escaped is as in `command.ts` of
//! `actions/toolkit`.

pub mod diagnosis;
mod markdown;
pub mod summary;

use std::fmt;

use super::content::Report;
use super::figures::counted;
use super::finding::{another_token, lines, suspicion};
use super::place::at;
use crate::judge::decoded::Cause;
use crate::judge::verdict::{SiteReport, Verdict};

/// Annotations of a kind that GitHub shows for a step.
const SHOWN: usize = 10;

/// How grave an annotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// A fault, or what counts as one.
    Error,
    /// Suspicious.
    Warning,
}

/// A line that GitHub shows beside the commit, and above the step's log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Annotation {
    level: Level,
    title: String,
    message: String,
}

/// The annotations of all reports, a line each: errors for faults, warnings for what is suspicious.
///
/// There are at most as many of a kind as GitHub shows; where there are more, the last tells how many.
pub fn annotations(reports: &[Report]) -> String {
    let errors = shown(reports.iter().flat_map(errors).collect(), "more fault");
    let warnings = shown(reports.iter().flat_map(warnings).collect(), "more suspicious site");
    joined(&errors, &warnings)
}

fn joined(errors: &[Annotation], warnings: &[Annotation]) -> String {
    let all: Vec<String> = errors.iter().chain(warnings).map(ToString::to_string).collect();
    all.join("\n")
}

/// Why nothing came of a command, as an error: unreadable input, or nothing compared.
pub fn failure(problem: &str) -> String {
    Annotation { level: Level::Error, title: "parity".to_owned(), message: problem.to_owned() }.to_string()
}

/// The first of them, and how many more there are.
fn shown(mut all: Vec<Annotation>, what: &str) -> Vec<Annotation> {
    if all.len() > SHOWN {
        let level = all[SHOWN].level;
        let more = counted(all.len() - (SHOWN - 1), what);
        all.truncate(SHOWN - 1);
        all.push(Annotation { level, title: more, message: "the log and the report have them".to_owned() });
    }
    all
}

/// Faults, other tokens than the reference's, and what else fails the report.
fn errors(report: &Report) -> Vec<Annotation> {
    let error = |what: String, message| error_of(report, &what, message);
    let sites = report.faults().into_iter().map(|fault| error(placed("fault", fault), lines(fault, report).join("\n")));
    let divergences = report.decode.iter().flat_map(|decoded| &decoded.divergences);
    let tokens = divergences.filter(|divergence| divergence.cause == Cause::Fault).map(|divergence| {
        error(format!("fault at token {} of the decode", divergence.position), another_token(divergence))
    });
    let others = report.other_failures().into_iter().map(|sentence| error("fault".to_owned(), sentence));
    sites.chain(tokens).chain(others).collect()
}

fn error_of(report: &Report, what: &str, message: String) -> Annotation {
    Annotation { level: Level::Error, title: titled(report, what), message }
}

/// What is suspicious.
fn warnings(report: &Report) -> Vec<Annotation> {
    let sites = report.sites.iter().filter(|site| site.verdict == Verdict::Suspicious);
    sites
        .map(|site| Annotation {
            level: Level::Warning,
            title: titled(report, &placed("suspicious", site)),
            message: format!("{}\nreproduce: {}", suspicion(site), report.again(site.site)),
        })
        .collect()
}

fn placed(what: &str, site: &SiteReport) -> String {
    format!("{what} at {} under the {} lens", at(site), site.lens)
}

fn titled(report: &Report, what: &str) -> String {
    format!("parity: {}: {what}", report.header.model)
}

/// As a workflow command.
impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        write!(f, "::{level} title={}::{}", property(&self.title), data(&self.message))
    }
}

/// A message on one line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which ends at a colon or a comma.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
