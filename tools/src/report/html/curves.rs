//! Curves over the layers: drift, what layers add, noise.

use reference::{LayerSite, Site};

use crate::judge::lens::Lens;
use crate::judge::verdict::SiteReport;
use crate::report::content::Report;

/// A curve over the layers, the logits after the last.
pub(super) type Curve = Vec<(usize, f64)>;

/// The curves of one plot.
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
    /// Of one forward pass.
    pub(super) fn of(report: &Report, step: usize) -> Self {
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
    pub(super) fn shows(&self) -> bool {
        self.total.iter().chain(&self.made).any(|(_, y)| *y > 0.0 && y.is_finite())
    }
}
