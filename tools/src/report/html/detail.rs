//! What is said of one cell of the map.

use maud::{Markup, html};

use super::cells::Cell;
use super::levels::levels;
use super::{plot, shown};
use crate::judge::chosen::{Chosen, PARTS};
use crate::judge::spread::Spread;
use crate::judge::verdict::{JudgedBy, SiteReport, Verdict};
use crate::report::content::Report;
use crate::report::figures::apart;
use crate::report::place::{at, named};

/// Shown when the cell is chosen.
pub(super) fn template(number: usize, report: &Report, cell: &Cell<'_>) -> Markup {
    html! {
        template data-of=(cell.id) {
            h4 { (at(cell.worst)) }
            (facts(report, cell))
            @if cell.kept && let Some(spread) = &cell.worst.spread {
                (shown::over(number, report, cell.worst, spread))
                (pictures(cell.worst, spread))
            }
            @if cell.kept && let Some(chosen) = &cell.worst.chosen { (choices(cell.worst, chosen)) }
        }
    }
}

/// A line a fact.
pub(super) fn facts(report: &Report, cell: &Cell<'_>) -> Markup {
    let site = cell.worst;
    let what = if site.judged_by == JudgedBy::Intervals { "tokens" } else { "values" };
    html! {
        dl.facts {
            dt { "verdict" }
            dd { b { (site.verdict) } " under the " (site.lens) " lens, by the " (site.judged_by) }
            dt { (what) }
            dd {
                (site.count) ": " (site.equal) " equal, " (site.faults) " outside"
                @if site.suspicious > 0 { ", " (site.suspicious) " suspicious" }
                @if let Some(expected) = site.unequal_expected {
                    "; " (site.count - site.equal) " other than the reference's, " (short(expected)) " expected"
                }
            }
            @for structure in &site.structures { dt { "structure" } dd { (structure) } }
            @if let Some(worst) = &site.worst {
                dt { "worst" } dd { (named(site, &worst.index, report.header.head_dim)) }
                @let [candidate, reference] = apart(worst.candidate, worst.reference);
                dt { "candidate" } dd { (candidate) }
                dt { "reference" } dd { (reference) }
                dt { "bound" } dd { "±" (format!("{:.2e}", worst.bound)) }
                dt { "ratio" } dd { (short(worst.ratio)) }
            }
            dt { "total" }
            dd {
                (format!("{:.2e}", site.deviation))
                @if let Some(floor) = site.floor { ", noise floor " (format!("{floor:.2e}")) }
                @if let Some(quantile) = site.quantile { ", percentile " (format!("{:.0} %", 100.0 * quantile)) " of right runs" }
                @if let Some(carried) = site.carried { ", inherited " (format!("{carried:.2e}")) }
            }
            @if !site.segment.is_empty() {
                @let segment: Vec<String> = site.segment.iter().map(ToString::to_string).collect();
                dt { "compared together with" } dd { (segment.join(", ")) }
            }
            @if let Some(note) = &site.note { dt { "note" } dd { (note) } }
            @if cell.passes > 1 { dt { "passes" } dd { (passes(cell)) } }
        }
        @if matches!(site.verdict, Verdict::Fault | Verdict::Suspicious) {
            p.again { "reproduce: " code { (report.again(site.site)) } }
        }
    }
}

fn passes(cell: &Cell<'_>) -> String {
    let shown = format!("{} judged, the worst is step {}", cell.passes, cell.worst.step);
    match cell.faulty.len() {
        0 => shown,
        faulty => format!("{shown}; {faulty} have a fault, the first is step {}", cell.faulty[0]),
    }
}

/// Histogram and map of the errors.
fn pictures(site: &SiteReport, spread: &Spread) -> Markup {
    let (rows, columns) = spread.map.dim();
    let (down, across) = sides(site);
    html! {
        figure {
            (plot::histogram(spread))
            figcaption {
                "Values by error / bound. " (spread.exact) " have no error"
                @if spread.infinite > 0 { ", " (spread.infinite) " are infinitely off" } "."
            }
        }
        figure {
            canvas.heat width=(columns * 8) height=(rows * 8) data-rows=(rows) data-columns=(columns) data-levels=(levels(&spread.map))
                data-dim={ (spread.dim.0) "," (spread.dim.1) } data-axes={ (down) "," (across) }
                role="img" aria-label={ "largest error / bound by " (down) " and " (across) } {}
            figcaption { "Largest error / bound by " (down) " (down) and " (across) " (across). " span.readout {} }
        }
    }
}

/// What each token chose.
fn choices(site: &SiteReport, chosen: &Chosen) -> Markup {
    let (rows, columns) = chosen.map.dim();
    let (down, across) = sides(site);
    html! {
        figure {
            canvas.heat.chosen width=(columns * 8) height=(rows * 8) data-rows=(rows) data-columns=(columns)
                data-levels=(levels(&chosen.map)) data-dim={ (chosen.dim.0) "," (chosen.dim.1) } data-tokens=(chosen.tokens)
                data-parts=(PARTS) data-axes={ (down) "," (across) }
                role="img" aria-label={ "what was chosen, by " (down) " and " (across) } {}
            figcaption {
                "What was chosen by " (down) " (down), of each " (across) " (across): the darker, the more often. "
                span.swatch.s6 { "t" } " another than the reference's, as rounding explains; "
                span.swatch.s8 { "✗" } " as it does not. " span.readout {}
            }
        }
    }
}

/// The names of rows and of columns.
fn sides(site: &SiteReport) -> (String, &'static str) {
    let axes: Vec<&str> = site.site.axes().iter().map(|axis| axis.name()).collect();
    let (columns, rows) = axes.split_last().expect("every value has an axis");
    (rows.join(" × "), columns)
}

/// A ratio in few characters.
pub(super) fn short(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        f64::INFINITY => "∞".to_owned(),
        0.01..1e4 => format!("{ratio:.2}"),
        _ => format!("{ratio:.1e}"),
    }
}
