//! ε of norms: of all, or of one kind of them.

use reference::LayerSite::{self, IndexKNorm, IndexQNorm, InputNorm, KNorm, PostAttentionNorm, QNorm};
use reference::Site::{self, FinalNorm};
use reference::config::Config;
use reference::site::VisionLayerSite::{Norm1, Norm2};
use reference::site::VisionSite::{self, Layer, PreNorm};

use super::kinds;
use super::parameter::Parameter;
use crate::diagnose::catalogue::mistake::Mistake;

const NORMS: &[LayerSite] = &[InputNorm, QNorm, KNorm, IndexQNorm, IndexKNorm, PostAttentionNorm];
const IN_TOWER: &[Site] = &[of_tower(PreNorm), of_tower(Layer(0, Norm1)), of_tower(Layer(0, Norm2))];

/// Those that all have in common come first.
pub(super) static PARAMETERS: [Parameter; 12] = [
    of_text(&kinds::NORM_EPS, "ε", "norm_eps", NORMS, &[FinalNorm]),
    of_text(&kinds::QK_NORM_EPS, "ε of the query and key norms", "qk_norm_eps", &[QNorm, KNorm], &[]),
    of_text(&kinds::INPUT_NORM_EPS, "ε of the norms before attention", "input_norm_eps", &[InputNorm], &[]),
    of_text(
        &kinds::POST_ATTENTION_NORM_EPS,
        "ε of the norms behind attention",
        "post_attention_norm_eps",
        &[PostAttentionNorm],
        &[],
    ),
    of_text(&kinds::FINAL_NORM_EPS, "ε of the last norm", "final_norm_eps", &[], &[FinalNorm]),
    of_text(&kinds::Q_NORM_EPS, "ε of the query norm", "q_norm_eps", &[QNorm], &[]),
    of_text(&kinds::K_NORM_EPS, "ε of the key norm", "k_norm_eps", &[KNorm], &[]),
    of_text(&kinds::INDEX_Q_NORM_EPS, "ε of the index query norm", "index_q_norm_eps", &[IndexQNorm], &[]),
    of_text(&kinds::INDEX_K_NORM_EPS, "ε of the index key norm", "index_k_norm_eps", &[IndexKNorm], &[]),
    of_vision(&kinds::VISION_NORM_EPS, "ε of the tower's norms", "vision_norm_eps", IN_TOWER),
    of_vision(
        &kinds::VISION_LAYER_NORM_EPS,
        "ε of the norms in the tower's layers",
        "vision_layer_norm_eps",
        &[of_tower(Layer(0, Norm1)), of_tower(Layer(0, Norm2))],
    ),
    of_vision(
        &kinds::VISION_PRE_NORM_EPS,
        "ε of the norm before the tower's layers",
        "vision_pre_norm_eps",
        &[of_tower(PreNorm)],
    ),
];

const fn of_tower(site: VisionSite) -> Site {
    Site::Vision(0, site)
}

const fn of_text(
    kind: &'static Mistake,
    name: &'static str,
    field: &'static str,
    touches: &'static [LayerSite],
    outside: &'static [Site],
) -> Parameter {
    let configured: fn(&Config) -> Option<f64> = |config| Some(config.rms_norm_eps);
    Parameter { kind, name, field, touches, outside, range: (1e-12, 10.0, 27), is_log: true, configured }
}

const fn of_vision(
    kind: &'static Mistake,
    name: &'static str,
    field: &'static str,
    outside: &'static [Site],
) -> Parameter {
    let configured: fn(&Config) -> Option<f64> = |config| config.vision.as_ref().map(|vision| vision.layer_norm_eps);
    Parameter { kind, name, field, touches: &[], outside, range: (1e-12, 10.0, 27), is_log: true, configured }
}

/// Whether a parameter is an ε.
pub(super) fn is_one(parameter: &Parameter) -> bool {
    parameter.field.ends_with("norm_eps")
}

/// Whether a site is a norm.
pub(super) fn is_norm(site: Site) -> bool {
    match site {
        Site::Layer(_, site) => NORMS.contains(&site),
        other => other == FinalNorm || IN_TOWER.contains(&of_any(other)),
    }
}

/// A place in the tower, in any pass and layer.
pub(super) fn of_any(site: Site) -> Site {
    match site {
        Site::Vision(_, Layer(_, site)) => of_tower(Layer(0, site)),
        Site::Vision(_, site) => of_tower(site),
        other => other,
    }
}
