//! What the axes of a site's value are called.

use reference::site::VisionSite;
use reference::{LayerSite, Site};

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
