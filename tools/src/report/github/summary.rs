//! A step's summary in Markdown: a table of the reports, then what is wrong with each.

use std::fmt::Write;

use super::markdown::{code, plain};
use crate::judge::decoded::Cause;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::report::content::{Conclusion, Report};
use crate::report::figures::counted;
use crate::report::finding::{another_token, lines, suspicion};
use crate::report::place::at;

/// Rows of the table: GitHub takes a summary of at most 1 MiB.
const ROWS: usize = 500;

/// Reports that are told in full, and findings of each kind in them.
const TOLD: usize = 10;

/// The reports as Markdown.
pub fn summary(reports: &[Report]) -> String {
    let conclusion = reports.iter().map(Report::conclusion).max();
    let word = conclusion.map_or_else(|| "nothing compared".to_owned(), |conclusion| conclusion.to_string());
    let mut text = format!("## parity: {word}\n\n");
    text +=
        "| model | candidate | precision | verdict | compared | coverage |\n| --- | --- | --- | --- | --- | --- |\n";
    reports.iter().take(ROWS).for_each(|report| text += &row(report));
    if reports.len() > ROWS {
        let _ = writeln!(text, "\nand {}", counted(reports.len() - ROWS, "more report"));
    }
    let told = reports.iter().filter(|report| report.conclusion() != Conclusion::Pass);
    told.take(TOLD).for_each(|report| text += &findings(report));
    text
}

fn row(report: &Report) -> String {
    let counts: Vec<String> = report.counts().into_iter().map(|(_, count)| count).collect();
    let header = &report.header;
    let precision = header.precision.to_string();
    let coverage = report.coverage.to_string();
    let [model, candidate, precision, counts, coverage] =
        [&header.model, &header.candidate, &precision, &counts.join(", "), &coverage].map(|cell| plain(cell));
    format!("| {model} | {candidate} | {precision} | **{}** | {counts} | {coverage} |\n", report.conclusion())
}

/// What is wrong with a report, the first of each kind.
fn findings(report: &Report) -> String {
    let mut text = format!("\n### {}: {}\n\n", plain(&report.header.model), report.conclusion());
    let faults: Vec<String> = report.faults().into_iter().map(|site| fault(site, report)).collect();
    text += &list(&faults, "more fault");
    let divergences = report.decode.iter().flat_map(|decoded| &decoded.divergences);
    let tokens = divergences.filter(|divergence| divergence.cause == Cause::Fault).map(|divergence| {
        format!("- **fault** at token {} of the decode: {}\n", divergence.position, plain(&another_token(divergence)))
    });
    text += &list(&tokens.collect::<Vec<String>>(), "more token");
    for sentence in report.other_failures() {
        let _ = writeln!(text, "- {}", plain(&sentence));
    }
    let suspicious = report.sites.iter().filter(|site| site.verdict == Verdict::Suspicious);
    let suspicious = suspicious.map(|site| {
        let (place, lens) = (code(&at(site)), site.lens);
        format!("- **suspicious** {place} under the {lens} lens: {}\n", plain(&suspicion(site)))
    });
    text += &list(&suspicious.collect::<Vec<String>>(), "more suspicious site");
    text
}

fn list(items: &[String], what: &str) -> String {
    let more = items.len().saturating_sub(TOLD);
    let more = if more > 0 { format!("- and {}\n", counted(more, what)) } else { String::new() };
    items.iter().take(TOLD).cloned().collect::<String>() + &more
}

/// A fault, a line a fact, the command that runs just that again as code.
fn fault(site: &SiteReport, report: &Report) -> String {
    let told = lines(site, report).into_iter().map(|line| {
        let command = line.strip_prefix("reproduce: ").map(|command| format!("reproduce: {}", code(command)));
        format!("  - {}\n", command.unwrap_or_else(|| plain(&line)))
    });
    format!("- **fault** {} under the {} lens\n{}", code(&at(site)), site.lens, told.collect::<String>())
}
