//! The numbers that are fitted, and where each is looked for.

use reference::LayerSite::{
    self, Context, DenseDown, ExpertHidden, IndexKRope, IndexQRope, KRope, Mlp, Output, PostAttentionNorm,
    Probabilities, QRope, Residual, Scores, SharedDown,
};
use reference::Site::{self, RopeCos, RopeSin};
use reference::config::Config;
use reference::site::{VisionLayerSite, VisionSite};

use super::kinds;
use super::parameter::Parameter;
use crate::diagnose::catalogue::mistake::Mistake;
use crate::diagnose::catalogue::{attention, residual, rotary};

pub(super) const ROTATED: &[LayerSite] = &[QRope, KRope, IndexQRope, IndexKRope];
const ATTENTION: &[LayerSite] = &[Scores, Probabilities, Context];
const ACTIVATED: &[LayerSite] = &[ExpertHidden, DenseDown, SharedDown];
const ADDED_FIRST: &[LayerSite] = &[Residual, PostAttentionNorm];

pub(super) static PARAMETERS: [Parameter; 17] = [
    Parameter {
        kind: &kinds::ROPE_THETA,
        name: "θ",
        field: "rope_theta",
        touches: ROTATED,
        outside: &[RopeCos, RopeSin],
        range: (10.0, 1e10, 84),
        is_log: true,
        configured: |config| (config.rotary_dim > 2).then_some(config.rope_theta),
    },
    Parameter {
        kind: &kinds::SCORE_SCALE,
        name: "the scale of scores",
        field: "score_scale",
        touches: ATTENTION,
        outside: &[],
        range: (1e-3, 10.0, 33),
        is_log: true,
        configured: |config| Some((config.head_dim as f64).sqrt().recip()),
    },
    Parameter {
        kind: &kinds::VISION_SCORE_SCALE,
        name: "the scale of the tower's scores",
        field: "vision_score_scale",
        touches: &[],
        outside: &[Site::Vision(0, VisionSite::Layer(0, VisionLayerSite::Context))],
        range: (1e-3, 10.0, 33),
        is_log: true,
        configured: |config| config.vision.as_ref().map(|vision| (vision.head_dim() as f64).sqrt().recip()),
    },
    Parameter {
        kind: &kinds::LIMIT,
        name: "ℓ",
        field: "swiglu_limit",
        touches: ACTIVATED,
        outside: &[],
        range: (0.01, 100.0, 33),
        is_log: true,
        configured: |config| config.swiglu_oai.map(|oai| oai.limit),
    },
    Parameter {
        kind: &kinds::ACTIVATED_LIMIT,
        name: "ℓ behind the sigmoid",
        field: "activated_limit",
        touches: ACTIVATED,
        outside: &[],
        range: (0.01, 100.0, 17),
        is_log: true,
        configured: |config| config.swiglu_oai.map(|oai| oai.limit),
    },
    Parameter {
        kind: &kinds::ALPHA,
        name: "α",
        field: "gate_alpha",
        touches: ACTIVATED,
        outside: &[],
        range: (0.05, 20.0, 25),
        is_log: true,
        configured: |config| config.swiglu_oai.map(|oai| oai.alpha),
    },
    Parameter {
        kind: &kinds::BETA,
        name: "β",
        field: "up_beta",
        touches: ACTIVATED,
        outside: &[],
        range: (-4.0, 4.0, 17),
        is_log: false,
        configured: |config| config.swiglu_oai.map(|oai| oai.beta),
    },
    Parameter {
        kind: &kinds::ROUTED_SCALE,
        name: "the routed experts' factor",
        field: "routed_scale",
        touches: &[Mlp, Output],
        outside: &[],
        range: (0.01, 100.0, 17),
        is_log: true,
        configured: |config| (config.shared_intermediate_size > 0).then_some(config.routed_scaling_factor),
    },
    Parameter {
        kind: &attention::SOFT_CAP,
        name: "c",
        field: "soft_cap",
        touches: ATTENTION,
        outside: &[],
        range: (0.5, 500.0, 20),
        is_log: true,
        configured: |_| Some(f64::INFINITY),
    },
    Parameter {
        kind: &attention::SINK,
        name: "the sink's score",
        field: "attention_sink",
        touches: &[Probabilities, Context],
        outside: &[],
        range: (-10.0, 10.0, 20),
        is_log: false,
        configured: |_| Some(f64::NEG_INFINITY),
    },
    Parameter {
        kind: &rotary::FACTOR,
        name: "the factor of cosines and sines",
        field: "rope_scale",
        touches: ROTATED,
        outside: &[RopeCos, RopeSin],
        range: (0.2, 5.0, 16),
        is_log: true,
        configured: |config| (config.rotary_dim > 0).then_some(1.0),
    },
    Parameter {
        kind: &rotary::LINEAR,
        name: "the divisor of positions",
        field: "rope_linear",
        touches: ROTATED,
        outside: &[RopeCos, RopeSin],
        range: (1.0 / 64.0, 64.0, 48),
        is_log: true,
        configured: |config| (config.rotary_dim > 0).then_some(1.0),
    },
    of_residual(&residual::ATTENTION_ALPHA, "α", "attention_alpha", ADDED_FIRST),
    of_residual(&residual::ATTENTION_BETA, "β", "attention_beta", ADDED_FIRST),
    of_residual(&residual::MLP_ALPHA, "α", "mlp_alpha", &[Output]),
    of_residual(&residual::MLP_BETA, "β", "mlp_beta", &[Output]),
    of_residual(&kinds::LAYER_SCALE, "the stream's factor", "layer_scale", &[Output]),
];

/// A factor of the stream, or of what is added to it.
const fn of_residual(
    kind: &'static Mistake,
    name: &'static str,
    field: &'static str,
    touches: &'static [LayerSite],
) -> Parameter {
    let (range, configured) = ((0.05, 20.0, 12), (|_| Some(1.0)) as fn(&Config) -> Option<f64>);
    Parameter { kind, name, field, touches, outside: &[], range, is_log: true, configured }
}
