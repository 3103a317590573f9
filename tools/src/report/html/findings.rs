//! What is wrong, before all else.

use maud::{Markup, html};

use super::cells::{Cell, Cells, ratio};
use super::{detail, known, map};
use crate::judge::decoded::Cause;
use crate::judge::verdict::Verdict;
use crate::report::content::Report;
use crate::report::figures::counted;
use crate::report::place::at;

/// Faults that are told in full.
const TOLD: usize = 20;

/// Faults that are open from the start.
const OPEN: usize = 2;

/// Faults, then what is not certain.
pub(super) fn all(report: &Report, cells: &Cells<'_>) -> Markup {
    let faults = cells.with(Verdict::Fault);
    let wrong = report.decode.iter().flat_map(|decoded| &decoded.divergences);
    let wrong = wrong.filter(|divergence| divergence.cause == Cause::Fault).count();
    let besides = report.other_failures();
    html! {
        h3 { "Faults" }
        @if faults.is_empty() && wrong == 0 && besides.is_empty() { p { "None." } }
        @for (number, cell) in faults.iter().take(TOLD).enumerate() { (fault(report, cell, number < OPEN)) }
        @if faults.len() > TOLD {
            p { "And " (faults.len() - TOLD) " more, which may follow from these; the map has them." }
        }
        @if wrong > 0 { p { (counted(wrong, "decoded token")) " that rounding cannot explain: see the decode." } }
        @for sentence in &besides { p { (sentence) } }
        (others(cells, Verdict::Suspicious, "Possible, but further off than independent roundings come, or by a pattern that they do not have"))
        (others(cells, Verdict::Inconclusive, "The comparison says nothing"))
    }
}

/// One fault: a line, and below it what else there is to say.
fn fault(report: &Report, cell: &Cell<'_>, open: bool) -> Markup {
    let site = cell.worst;
    html! {
        details.fault open[open] {
            summary {
                b { (map::glyph(Verdict::Fault)) " " (at(site)) }
                " " span.aside { (site.lens) " lens, " (site.faults) " of " (site.count) ", ratio " (detail::short(ratio(site))) }
            }
            (detail::facts(report, cell))
            @if known::told_at(report).any(|fault| fault.site == site.site) { (known::made_here(site)) }
            p { a href={ "#" (cell.id) } { "show on the map" } }
        }
    }
}

fn others(cells: &Cells<'_>, verdict: Verdict, what: &str) -> Markup {
    let found = cells.with(verdict);
    html! {
        @if !found.is_empty() {
            details {
                summary { (what) ": " (found.len()) }
                ul {
                    @for cell in &found {
                        li {
                            a href={ "#" (cell.id) } { (at(cell.worst)) }
                            @if let Some(note) = &cell.worst.note { ": " (note) }
                        }
                    }
                }
            }
        }
    }
}
