//! The report as a page: one file that asks for no other, in light and dark, for wide screens and narrow ones.
//!
//! Reading order: `cells`, what the map has; `map`, the map; `detail`, what is said of one of its cells;
//! `shown`, errors over the images; `findings`, faults first; `known`, mistakes that are made there; `detection`, what could
//! have been found; `plot`, curves and histograms; `drift`, `routing` and `tokens`, the model as a whole; `diagnosis`, the
//! page of what was diagnosed; `mistakes`, a page for each that is known.

mod cells;
mod curves;
mod detail;
mod detection;
pub mod diagnosis;
mod drift;
mod findings;
mod known;
mod levels;
mod map;
pub mod mistakes;
mod plot;
mod routing;
mod shown;
mod tokens;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::cells::Cells;
use super::content::{Conclusion, Report};
use super::exactness;
use super::figures::counted;
use super::place::of_step;
use crate::judge::verdict::Verdict;

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Nothing is loaded, whatever a name contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The reports as a page.
pub fn html(reports: &[Report]) -> String {
    let conclusion = reports.iter().map(Report::conclusion).max();
    let word = conclusion.map_or_else(|| "NOTHING COMPARED".to_owned(), |conclusion| conclusion.to_string());
    let names: Vec<&str> = reports.iter().map(|report| report.header.model.as_str()).collect();
    let body = html! {
        h1 { "parity" @if let Some(conclusion) = conclusion { " " (badge(conclusion)) } }
        @if reports.len() > 1 { (contents(reports)) }
        @for (number, report) in reports.iter().enumerate() { (section(number, report)) }
        (known::of_reports(reports))
    };
    page(&format!("{word} · parity · {}", names.join(", ")), &body)
}

/// A whole page.
fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The report in a word.
fn badge(conclusion: Conclusion) -> Markup {
    let is_doubtful = matches!(conclusion, Conclusion::Suspicious | Conclusion::Inconclusive);
    html! {
        span.badge.fail[conclusion == Conclusion::Fail].suspicious[is_doubtful] { (conclusion) }
    }
}

/// Several models, a line each.
fn contents(reports: &[Report]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="models" {
            table.figures {
                thead { tr { th scope="col" { "model" } th scope="col" { "compared" } th scope="col" { "faults" } th scope="col" { "" } } }
                tbody {
                    @for (number, report) in reports.iter().enumerate() {
                        tr {
                            th scope="row" { a href={ "#report" (number) } { (report.header.model) } }
                            td { (report.sites.len()) }
                            td { (report.count(Verdict::Fault)) }
                            td { (badge(report.conclusion())) }
                        }
                    }
                }
            }
        }
    }
}

/// One comparison.
fn section(number: usize, report: &Report) -> Markup {
    let cells = Cells::of(number, report);
    html! {
        section.report id={ "report" (number) } {
            h2 { (report.header.model) " " (badge(report.conclusion())) }
            (header(report))
            (shown::backgrounds(number, report))
            (findings::all(report, &cells))
            (detection::detection(report))
            (map::map(number, report, &cells))
            (drift::drift(report))
            (routing::routing(report))
            (tokens::logits(report))
            (tokens::decode(report))
        }
    }
}

/// What was compared.
fn header(report: &Report) -> Markup {
    let header = &report.header;
    let missing = report.missing_kinds();
    html! {
        p.counts {
            (counted(report.sites.len(), "comparison")) ":"
            @for (verdict, count) in report.counts() { " " span.count { (map::glyph(verdict)) " " (count) } }
        }
        dl.facts {
            dt { "model" } dd { (header.size) }
            dt { "candidate" } dd { (header.candidate) }
            dt { "precision" } dd { (header.precision) " (" (header.precision_from) ")" }
            dt { "semantics" } dd { (header.semantics) }
            dt { "prompt" } dd { (header.prompt()) }
            dt { "coverage" } dd { (report.coverage) }
            @if let Some(why) = report.why_inconclusive() { dt { "inconclusive" } dd { (why) } }
            @for note in &header.notes { dt { "note" } dd { (note) } }
            @if let Some(exact) = &report.exact {
                dt { "exact twin" }
                dd {
                    (exactness::sentence(exact))
                    @for bits in exact.differing() { br; (of_step(bits.step, bits.site)) ": " (exactness::difference(bits)) }
                }
            }
            @if !missing.is_empty() {
                dt { "not captured" }
                dd { "checked through the next captured operator: " (missing.join(", ")) }
            }
            dt { "command" } dd { code { (header.command) } }
        }
    }
}
