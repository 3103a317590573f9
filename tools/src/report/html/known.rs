//! What is known of mistakes, in a page that finds some: links, and what the page of each says, at the end.

use maud::{Markup, html};

use super::mistakes::told;
use crate::diagnose::diagnosis::Diagnosis;
use crate::diagnose::lessons::found;
use crate::diagnose::lessons::lesson::Lesson;
use crate::diagnose::lessons::list::lessons;
use crate::judge::verdict::SiteReport;
use crate::report::content::Report;
use crate::report::figures::counted;
use crate::report::mistakes::Entry;
use crate::report::place::kind;

/// Faults of a report of whose operators the mistakes are told: those behind them follow from them for the most part.
const FAULTS: usize = 3;

/// A mistake's name, which leads to what is known of it, where something is.
pub(super) fn link(name: &str) -> Markup {
    if lessons().any(|lesson| lesson.name == name) || found::of(name).is_some() {
        return html! { a href={ "#" (id(name)) } { (name) } };
    }
    html! { (name) }
}

fn id(name: &str) -> String {
    format!("mistake-{name}")
}

/// The mistakes that are made in a fault's operator, each with what it does.
pub(super) fn made_here(fault: &SiteReport) -> Markup {
    let known: Vec<&Lesson> = made_at(fault).collect();
    html! {
        @if !known.is_empty() {
            details {
                summary { (counted(known.len(), "known mistake")) " of ports made here" }
                ul { @for lesson in &known { li { (link(lesson.name)) ": " (about(lesson)) } } }
                p { code { "parity diagnose" } " finds which of them it is, if it is one." }
            }
        }
    }
}

fn made_at(fault: &SiteReport) -> impl Iterator<Item = &'static Lesson> {
    let made_at = kind(fault.site);
    lessons().filter(move |lesson| lesson.touches().into_iter().any(|site| kind(site) == made_at))
}

fn about(lesson: &Lesson) -> &'static str {
    lesson.entries().next().expect("the catalogue has each mistake").about
}

/// The faults of a report at which mistakes are told.
pub(super) fn told_at(report: &Report) -> impl Iterator<Item = &SiteReport> {
    report.faults().into_iter().take(FAULTS)
}

/// What is known of the mistakes that are made where reports have their first faults.
pub(super) fn of_reports(reports: &[Report]) -> Markup {
    let sites = reports.iter().flat_map(told_at);
    all(&sites.flat_map(made_at).map(|lesson| lesson.name).collect::<Vec<_>>())
}

/// What is known of the mistakes that diagnoses name.
pub(super) fn of_diagnoses(diagnoses: &[Diagnosis]) -> Markup {
    let explained = diagnoses.iter().flat_map(|diagnosis| &diagnosis.explained);
    let named = explained.flat_map(|one| one.equivalent.iter().map(String::as_str).chain([one.name]));
    all(&named.collect::<Vec<_>>())
}

/// What the page of each says, once each.
fn all(names: &[&str]) -> Markup {
    let known = lessons().filter(|lesson| names.contains(&lesson.name)).map(|lesson| Entry::of(lesson, Vec::new()));
    let searched = found::all().filter(|found| names.contains(&found.kind.name)).map(Entry::searched);
    let told_of: Vec<Entry> = known.chain(searched).collect();
    html! {
        @if !told_of.is_empty() {
            section {
                h2 { "Known mistakes" }
                p { "More of one: " code { "parity mistakes NAME" } "; a page of each: " code { "parity mistakes --html DIR" } "." }
                @for entry in told_of {
                    details open[names.len() == 1] {
                        summary { b { (entry.name) } ": " (entry.about) }
                        // A browser that goes to what is inside opens it.
                        div id=(id(entry.name)) { (told(&entry)) }
                    }
                }
            }
        }
    }
}
