//! Tokens that were sent to other experts than the reference sends them.

use maud::{Markup, html};

use super::detail::short;
use crate::judge::verdict::{JudgedBy, SiteReport};
use crate::report::content::Report;
use crate::report::place::at;

/// Tokens that a line names.
const NAMED: usize = 12;

/// A line a layer whose choices differ.
pub(super) fn routing(report: &Report) -> Markup {
    let choices: Vec<&SiteReport> = report.sites.iter().filter(|s| s.judged_by == JudgedBy::Intervals).collect();
    let flipped: Vec<&SiteReport> = choices.iter().copied().filter(|site| !site.flips.is_empty()).collect();
    let tokens: usize = choices.iter().map(|site| site.count).sum();
    html! {
        @if !choices.is_empty() {
            h3 { "Routing" }
            p {
                @if flipped.is_empty() { "From the candidate's own scores the reference sends every token to the same experts" }
                @else {
                    (flipped.iter().map(|site| site.flips.len()).sum::<usize>()) " of " (tokens)
                    " choices of experts are not the reference's from the candidate's own scores, "
                    (short(choices.iter().filter_map(|site| site.unequal_expected).sum())) " are expected"
                }
                ", in " (choices.len()) " judged choices of a layer."
            }
            @if !flipped.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="routing by layer" {
                    table.figures {
                        thead {
                            tr { @for name in ["site", "tokens", "expected", "legal", "illegal"] { th scope="col" { (name) } } th.words scope="col" { "which" } }
                        }
                        tbody { @for site in flipped { (line(site)) } }
                    }
                }
            }
        }
    }
}

fn line(site: &SiteReport) -> Markup {
    let named: Vec<String> = site
        .flips
        .iter()
        .take(NAMED)
        .map(|flip| format!("{}{}", flip.token, if flip.legal { "" } else { " ✗" }))
        .collect();
    let more = site.flips.len() - named.len();
    html! {
        tr {
            th scope="row" { (at(site)) }
            td { (site.count) }
            td { (site.unequal_expected.map_or_else(String::new, short)) }
            td { (site.flips.iter().filter(|flip| flip.legal).count()) }
            td { (site.flips.iter().filter(|flip| !flip.legal).count()) }
            td.words { (named.join(", ")) @if more > 0 { " and " (more) " more" } }
        }
    }
}
