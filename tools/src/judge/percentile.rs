//! What strays further than nearly all right implementations do, in every layer: within the limits everywhere, and still not
//! by chance.

use reference::{LayerSite, Site};

use super::lens::Lens;
use super::verdict::{SiteReport, Verdict};

/// The share of right implementations that stray less than what is far: what is printed as 100 %.
const FAR: f64 = 0.995;

/// So many layers, each next to a right one that starts from the candidate's own input, stray far by chance less than once in
/// a million runs: of 305 layers of 43 right runs of transformers, 11 did.
const LAYERS: usize = 5;

/// Marks the layers' outputs as suspicious where the layer lens sees enough of them, and all of them stray far.
pub fn mark(sites: &mut [SiteReport]) {
    let is_output = |report: &&mut SiteReport| {
        report.lens == Lens::Layer && matches!(report.site, Site::Layer(_, LayerSite::Output))
    };
    let mut outputs: Vec<&mut SiteReport> = sites.iter_mut().filter(is_output).collect();
    let is_far = |report: &&mut SiteReport| report.quantile.is_some_and(|quantile| quantile >= FAR);
    if outputs.len() < LAYERS || !outputs.iter().all(is_far) {
        return;
    }
    for report in outputs.iter_mut().filter(|report| report.verdict < Verdict::Suspicious) {
        report.verdict = Verdict::Suspicious;
        report.note = Some(format!(
            "every layer strays further than {:.1} % of right implementations; a coarser precision than is assumed does so",
            100.0 * FAR
        ));
    }
}
