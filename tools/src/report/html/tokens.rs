//! Which tokens follow: the logits' likeliest, and the decode.

use maud::{Markup, html};

use super::plot;
use crate::judge::decoded::{Cause, Decoded, Divergence};
use crate::judge::verdict::{SiteReport, Top};
use crate::report::content::Report;
use crate::report::logits::Logits;
use crate::report::place::at;

/// Lines of a table of tokens.
const TOLD: usize = 20;

/// Whether the logits make the same tokens the likeliest.
pub(super) fn logits(report: &Report) -> Markup {
    let lenses = Logits::of(report);
    let differing: Vec<(&SiteReport, &Top)> =
        lenses.iter().flat_map(Logits::tops).filter(|(_, top)| top.candidate != top.reference).collect();
    html! {
        @if !lenses.is_empty() {
            h3 { "Logits" }
            ul {
                @for logits in &lenses { li { (logits.lens) " lens: " (logits) } }
            }
            @if !differing.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="tokens that differ" {
                    table.figures {
                        thead {
                            tr { th scope="col" { "site" } th.words scope="col" { "lens" } @for name in ["token", "candidate", "reference", "margin"] { th scope="col" { (name) } } }
                        }
                        tbody {
                            @for (site, top) in differing.iter().take(TOLD) {
                                tr {
                                    th scope="row" { (at(site)) }
                                    td.words { (site.lens) } td { (top.token) } td { (top.candidate) } td { (top.reference) }
                                    td { (format!("{:.3e}", top.margin)) }
                                }
                            }
                        }
                    }
                }
                @if differing.len() > TOLD { p { "And " (differing.len() - TOLD) " more." } }
            }
        }
    }
}

/// The decoded tokens, their margins, and where they are others.
pub(super) fn decode(report: &Report) -> Markup {
    let Some(decoded) = &report.decode else { return html! {} };
    html! {
        h3 { "Decode" }
        p {
            "top-1 agreement " (decoded.tokens.len() - decoded.divergences.len()) "/" (decoded.tokens.len())
            ", the reference reading the candidate's own tokens."
        }
        @if !decoded.divergences.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="divergences" {
                table.figures {
                    thead {
                        tr { th scope="col" { "token" } th.words scope="col" { "cause" } @for name in ["candidate", "reference", "margin", "rounding explains", "noise explains"] { th scope="col" { (name) } } }
                    }
                    tbody { @for divergence in decoded.divergences.iter().take(TOLD) { (line(divergence)) } }
                }
            }
            @if decoded.divergences.len() > TOLD { p { "And " (decoded.divergences.len() - TOLD) " more." } }
        }
        figure {
            (plot::margins(decoded))
            figcaption { "Margin of the reference's token at each position" (others(decoded)) "." }
        }
    }
}

fn others(decoded: &Decoded) -> &'static str {
    if decoded.divergences.is_empty() { "" } else { "; squares: the candidate's token is another" }
}

fn line(divergence: &Divergence) -> Markup {
    let fault = divergence.cause == Cause::Fault;
    html! {
        tr.wrong[fault] {
            th scope="row" { (divergence.position) }
            td.words { @if fault { "✗ " } (divergence.cause) }
            td { (divergence.candidate) } td { (divergence.reference) }
            @for figure in [divergence.margin, divergence.rounding, divergence.limit] { td { (format!("{figure:.3e}")) } }
        }
    }
}
