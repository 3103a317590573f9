//! The drift of the residual stream, layer by layer, beside that of right implementations.

use maud::{Markup, html};

use super::curves::Drift;
use super::plot;
use crate::report::content::Report;

/// The plot, in a wide and a narrow form.
pub(super) fn drift(report: &Report) -> Markup {
    let longest = report.header.steps.iter().enumerate().max_by_key(|(step, tokens)| (**tokens, usize::MAX - step));
    let drift = Drift::of(report, longest.map_or(0, |(step, _)| step));
    html! {
        @if !drift.total.is_empty() || !drift.made.is_empty() {
            h3 { "Drift" }
            @if drift.shows() {
                figure {
                    div.wide { (plot::drift(&drift, (860, 320))) }
                    div.narrow { (plot::drift(&drift, (360, 280))) }
                    figcaption {
                        "‖candidate − reference‖ / ‖reference‖ of each layer's output"
                        @if report.header.steps.len() > 1 { ", in the longest forward pass" } ". "
                        span.key.drift { "total, the reference running freely" } " "
                        span.key.made { "added here, from the candidate's own input to the layer" } " "
                        span.key.noise { "noise floor: where right implementations that round at random are" }
                    }
                }
            } @else { p { "None: every layer's output is the reference's." } }
        }
    }
}
