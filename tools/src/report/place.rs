//! Where in a model a site is, and what the axes of its values are called.

use reference::site::VisionSite;
use reference::{LayerSite, Site};

use crate::verdict::SiteReport;

/// The site's path, with the forward pass where there are several.
pub(super) fn at(report: &SiteReport) -> String {
    match report.step {
        0 => report.site.to_string(),
        step => format!("step.{step}.{}", report.site),
    }
}

/// Rows of a table of a model: what is before the layers, each layer, what is after.
pub(super) fn row_of(report: &SiteReport, layers: usize) -> usize {
    row_of_site(report.site, layers)
}

/// The same of a site.
pub(super) fn row_of_site(site: Site, layers: usize) -> usize {
    match site {
        Site::Vision(..) | Site::Embedding | Site::InputsEmbeds | Site::RopeCos | Site::RopeSin => 0,
        Site::Layer(layer, _) => layer + 1,
        Site::FinalNorm | Site::LmHead | Site::Logits => layers + 1,
    }
}

/// What such a row is called.
pub(super) fn row_name(row: usize, layers: usize) -> String {
    match row {
        0 => "start".to_owned(),
        row if row > layers => "head".to_owned(),
        row => (row - 1).to_string(),
    }
}

/// A site's path inside its layer.
pub(super) fn kind(site: Site) -> String {
    match site {
        Site::Layer(_, LayerSite::Output) => "layer outputs".to_owned(),
        Site::Layer(layer, _) => site.to_string().replace(&format!("model.layers.{layer}."), ""),
        other => other.to_string(),
    }
}

/// What the axes of a site's value are.
pub(crate) fn axes(site: Site) -> &'static [&'static str] {
    use VisionSite::{Features, MergeActivation, MergeLinear1, MergeLinear2};
    match site {
        Site::LmHead | Site::Logits => &["token", "vocabulary entry"],
        Site::Vision(_, MergeLinear1 | MergeActivation | MergeLinear2 | Features) => &["feature", "channel"],
        Site::Vision(..) => &["patch", "channel"],
        Site::Layer(_, site) => match site {
            LayerSite::Scores | LayerSite::Probabilities | LayerSite::TokenScores => &["head", "token", "position"],
            LayerSite::GateLogits | LayerSite::GateScores | LayerSite::GateChoice | LayerSite::GateExperts => {
                &["token", "expert"]
            }
            LayerSite::BlockMax | LayerSite::BlockScore | LayerSite::Blocks => &["group", "token", "block"],
            LayerSite::GateWeights => &["token", "choice"],
            LayerSite::ExpertHidden | LayerSite::ExpertOutput => &["token", "choice", "channel"],
            _ => &["token", "channel"],
        },
        _ => &["token", "channel"],
    }
}

/// Whether the channels are those of attention heads, side by side.
pub(crate) fn has_heads(site: Site) -> bool {
    use LayerSite::{Context, KNorm, KProj, KRope, QNorm, QProj, QRope, VProj};
    matches!(site, Site::Layer(_, QProj | KProj | VProj | QNorm | KNorm | QRope | KRope | Context))
}

/// An index with the names of its axes.
pub(super) fn named(site: Site, index: &[usize], head_dim: usize) -> String {
    let named: Vec<String> = axes(site).iter().zip(index).map(|(axis, at)| format!("{axis} {at}")).collect();
    match index {
        [_, channel] if has_heads(site) => {
            format!("{} (channel {} of head {})", named.join(", "), channel % head_dim, channel / head_dim)
        }
        _ => named.join(", "),
    }
}
