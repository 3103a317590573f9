//! What the logits' errors do, under each lens: the one source of every form of the report.

use std::fmt;

use reference::Site;

use super::content::Report;
use crate::judge::lens::Lens;
use crate::judge::verdict::{Likelihood, SiteReport, Top};

/// The logits under one lens, in all forward passes.
pub(super) struct Logits<'r> {
    /// The lens.
    pub lens: Lens,
    /// A report a forward pass.
    pub sites: Vec<&'r SiteReport>,
}

impl<'r> Logits<'r> {
    /// Under each lens that judged them. The local lens judges the head's own output, if that is shown: what the model returns
    /// is that again.
    pub(super) fn of(report: &'r Report) -> Vec<Self> {
        let under = |lens: Lens| {
            let at = |site: Site| -> Vec<&SiteReport> {
                let of_lens = report.sites.iter().filter(|s| s.lens == lens && s.site == site);
                of_lens.filter(|s| s.likelihood.is_some() || !s.tops.is_empty()).collect()
            };
            let head = at(Site::LmHead);
            Logits { lens, sites: if head.is_empty() { at(Site::Logits) } else { head } }
        };
        let all = [Lens::Local, Lens::Layer, Lens::Global].map(under);
        all.into_iter().filter(|logits| !logits.sites.is_empty()).collect()
    }

    /// The likeliest token of every row.
    pub(super) fn tops(&self) -> impl Iterator<Item = (&'r SiteReport, &'r Top)> + '_ {
        self.sites.iter().flat_map(|site| site.tops.iter().map(|top| (*site, top)))
    }

    /// The largest divergence of all forward passes, and the largest bound.
    fn likelihood(&self) -> Option<Likelihood> {
        let largest = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
        let of_sites = self.sites.iter().filter_map(|site| site.likelihood);
        of_sites.reduce(|a, b| Likelihood {
            divergence: largest(a.divergence, b.divergence),
            bound: largest(a.bound, b.bound),
        })
    }
}

impl fmt::Display for Logits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same = self.tops().filter(|(_, top)| top.candidate == top.reference).count();
        let smallest = self.tops().map(|(_, top)| top.margin).fold(f64::INFINITY, f64::min);
        write!(f, "top-1 agreement {same}/{}", self.tops().count())?;
        if smallest.is_finite() {
            write!(f, ", smallest margin {smallest:.3e}")?;
        }
        self.likelihood().map_or(Ok(()), |Likelihood { divergence, bound }| {
            write!(f, "; KL up to {divergence:.2e}, by the logits' bounds at most {bound:.2e}")
        })
    }
}
