//! The drift of the residual stream, layer by layer, beside that of right implementations.

use maud::{Markup, html};
use reference::{LayerSite, Site};

use super::plot;
use crate::lens::Lens;
use crate::report::Report;
use crate::verdict::SiteReport;

/// A curve over the layers, the logits after the last.
pub(super) type Curve = Vec<(usize, f64)>;

/// What the plot shows.
pub(super) struct Drift {
    /// Against the reference that runs freely.
    pub total: Curve,
    /// What each layer makes, from the candidate's own input.
    pub made: Curve,
    /// The largest of the noise runs.
    pub noise: Curve,
    /// Layers of the model.
    pub layers: usize,
}

impl Drift {
    fn of(report: &Report, step: usize) -> Self {
        let layers = report.header.layers;
        let of = |lens| report.sites.iter().filter(move |site| site.lens == lens && site.step == step);
        let place = |site: &SiteReport| match site.site {
            Site::Layer(layer, LayerSite::Output) => Some(layer),
            Site::Logits => Some(layers),
            _ => None,
        };
        let curve = |lens| of(lens).filter_map(|site| Some((place(site)?, site.deviation))).collect();
        let noise = of(Lens::Global).filter_map(|site| Some((place(site)?, site.floor?)));
        Drift { total: curve(Lens::Global), made: curve(Lens::Layer), noise: noise.collect(), layers }
    }

    /// Whether there is anything that a logarithmic axis can show.
    fn shows(&self) -> bool {
        self.total.iter().chain(&self.made).any(|(_, y)| *y > 0.0 && y.is_finite())
    }
}

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
                        span.key.drift { "drift, the reference running freely" } " "
                        span.key.made { "made in the layer, from the candidate's own input" } " "
                        span.key.noise { "noise: where right implementations that round at random are" }
                    }
                }
            } @else { p { "None: every layer's output is the reference's." } }
        }
    }
}
