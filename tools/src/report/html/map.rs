//! The map: where in the model errors are, and how large beside their bounds.

use maud::{Markup, html};

use super::cells::{Cell, Cells, ratio};
use super::detail;
use crate::judge::verdict::Verdict;
use crate::report::content::Report;
use crate::report::place::at;

/// The largest ratio of each colour but the first, which is for none, and the last, which is for all above.
const SHADES: [f64; 8] = [0.015_625, 0.062_5, 0.25, 0.5, 1.0, 2.0, 16.0, 256.0];

/// The colour of a ratio.
fn shade(ratio: f64) -> usize {
    if ratio == 0.0 { 0 } else { 1 + SHADES.iter().take_while(|largest| ratio > **largest).count() }
}

/// A verdict's sign, the same as on a terminal.
pub(super) fn glyph(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Exact => "=",
        Verdict::Within => "·",
        Verdict::Tie => "t",
        Verdict::Missing => "–",
        Verdict::Inconclusive => "?",
        Verdict::Suspicious => "!",
        Verdict::Fault => "✗",
    }
}

/// The map, and beside it what is said of the chosen cell.
pub(super) fn map(number: usize, report: &Report, cells: &Cells<'_>) -> Markup {
    let first = cells.first().map(|cell| cell.id.as_str());
    html! {
        h3 { "Map" }
        p.hint {
            "Rows are layers, those of a vision tower first; columns are sites under the local lens, then outputs under the other two. "
            "Arrow keys move, Enter shows a cell; so does a click. " (Cells::kept())
        }
        (legend())
        div.explorer {
            div.mapbox {
                table.map role="grid" aria-label={ "sites of " (report.header.model) } {
                    thead {
                        tr {
                            th scope="col" { span { "layer" } }
                            @for column in &cells.columns { th scope="col" { span { (column.name()) } } }
                        }
                    }
                    tbody {
                        @for row in &cells.rows {
                            tr {
                                th scope="row" { (row) }
                                @for column in &cells.columns {
                                    @match cells.at.get(&(*row, *column)) {
                                        Some(cell) => (shown(cell, first)),
                                        None if cells.missing.contains(&(*row, *column)) => {
                                            td.absent aria-label="not captured" { (glyph(Verdict::Missing)) }
                                        }
                                        None => td aria-hidden="true" {},
                                    }
                                }
                            }
                        }
                    }
                }
            }
            aside.detail aria-live="polite" aria-label="the chosen cell" tabindex="-1" {}
        }
        @for cell in cells.at.values() { (detail::template(number, report, cell)) }
    }
}

fn shown(cell: &Cell<'_>, first: Option<&str>) -> Markup {
    let site = cell.worst;
    let label = format!("{}, {} lens: {}, ratio {}", at(site), site.lens, site.verdict, detail::short(ratio(site)));
    let first = first == Some(cell.id.as_str());
    let class = format!("s{} {}", shade(ratio(site)), site.verdict);
    html! {
        td id=(cell.id) class=(class) tabindex=(if first { "0" } else { "-1" }) aria-selected=(first) aria-label=(label) {
            (glyph(site.verdict))
        }
    }
}

/// What colours and signs mean.
fn legend() -> Markup {
    let said = [
        Verdict::Exact,
        Verdict::Within,
        Verdict::Tie,
        Verdict::Inconclusive,
        Verdict::Suspicious,
        Verdict::Fault,
        Verdict::Missing,
    ];
    html! {
        div.legend {
            span.scale role="img" aria-label="colours: the worst ratio of error to bound, from none to above 256; 1 is the bound" {
                span.name { "worst error / bound" }
                span.swatch.s0 { "0" }
                @for (number, largest) in SHADES.iter().enumerate() {
                    span class={ "swatch s" (number + 1) } { "≤" (fraction(*largest)) }
                }
                span class={ "swatch s" (SHADES.len() + 1) } { ">256" }
            }
            ul.signs {
                @for verdict in said {
                    li { b { (glyph(verdict)) } " " @if verdict == Verdict::Missing { "not captured" } @else { (verdict) } }
                }
            }
        }
    }
}

fn fraction(x: f64) -> String {
    if x < 1.0 { format!("1/{}", 1.0 / x) } else { x.to_string() }
}
