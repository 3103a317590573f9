//! Mistakes in SwiGLU-OAI, and in the sum of routed and shared experts.

use reference::LayerSite::{DenseDown, ExpertHidden, Mlp, Shared, SharedDown, SharedGateUp};
use reference::Site;
use reference::config::Config;
use reference::weights::{LayerWeight, Projection};

use super::mistake::{Change, Mistake, given, layer, reading};
use super::weights::WeightChange;

/// What follows an activation that is no site of its own, or is one.
const ACTIVATED: &[Site] = &[layer(ExpertHidden), layer(DenseDown), layer(SharedDown)];
const SUM: &[Site] = &[layer(Mlp)];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "swiglu_params_dropped",
        about: "the activation is SwiGLU: α, β and the limit were lost",
        right: "(u′ + 1) · g′ · σ(α·g′)",
        visible: "always",
        touches: ACTIVATED,
        ways: |config, _| where_oai(config, || reading("activation", "swiglu")),
    },
    Mistake {
        name: "swiglu_clamp_symmetric",
        about: "the gate is clamped from below, too",
        right: "it is clamped from above: so the released code; document 001 (chapters 5.2 and 8.1) has both sides",
        visible: "gates below the limit's negative",
        touches: ACTIVATED,
        ways: |config, _| where_oai(config, || reading("gate_clamp", "symmetric")),
    },
    Mistake {
        name: "swiglu_clamp_upper",
        about: "the gate is clamped from above only, as the released model does",
        right: "to both sides: so document 001 (chapters 5.2 and 8.1), where that is the reading",
        visible: "gates below the limit's negative, and a reading of both sides",
        touches: ACTIVATED,
        ways: |config, _| where_oai(config, || reading("gate_clamp", "upper")),
    },
    Mistake {
        name: "swiglu_no_clamp",
        about: "gate and up projection are not clamped, or the gate is not",
        right: "the gate from above, the up projection to both sides",
        visible: "values beyond the limit",
        touches: ACTIVATED,
        ways: |config, _| {
            where_oai(config, || [reading("swiglu_limit", "inf"), reading("gate_clamp", "none")].concat())
        },
    },
    Mistake {
        name: "swiglu_up_no_plus_one",
        about: "the gate is multiplied by u′ instead of u′ + 1",
        right: "(u′ + 1) · g′ · σ(α·g′)",
        visible: "always",
        touches: ACTIVATED,
        ways: |config, _| where_oai(config, || reading("up_beta", "0")),
    },
    Mistake {
        name: "swiglu_up_clamp",
        about: "the up projection is clamped together with its β, from above alone, or not at all",
        right: "to both sides, and β is added then",
        visible: "values beyond the limit",
        touches: ACTIVATED,
        ways: |config, _| {
            let others = ["sum", "upper", "none"];
            where_oai(config, || others.iter().flat_map(|other| reading("up_clamp", other)).collect())
        },
    },
    Mistake {
        name: "routed_scale_missing",
        about: "the routed experts' sum is not scaled",
        right: "routed_scaling_factor · routed + shared",
        visible: "a factor other than 1",
        touches: SUM,
        ways: |config, _| where_scaled(config, |_| reading("routed_scale", "1")),
    },
    Mistake {
        name: "routed_scale_twice",
        about: "the routed experts' sum is scaled twice",
        right: "routed_scaling_factor · routed + shared",
        visible: "a factor other than 1",
        touches: SUM,
        ways: |config, _| where_scaled(config, |scale| reading("routed_scale", &(scale * scale).to_string())),
    },
    Mistake {
        name: "shared_scaled",
        about: "the shared expert is multiplied by the routed experts' factor, or by its reciprocal, or added twice",
        right: "routed_scaling_factor · routed + shared",
        visible: "always; where it is multiplied by a factor, one other than 1",
        touches: SUM,
        ways: |config, _| {
            let both = || [reading("shared_scale", "routed"), reading("shared_scale", "reciprocal")].concat();
            let is_other = config.routed_scaling_factor.to_bits() != 2.0_f64.to_bits();
            let twice = given(is_shared(config) && is_other, || reading("shared_scale", "twice"));
            [where_scaled(config, |_| both()), twice].concat()
        },
    },
    Mistake {
        name: "shared_unnormed",
        about: "the shared expert reads the residual stream instead of its norm",
        right: "it reads what the routed experts read",
        visible: "always",
        touches: &[layer(SharedGateUp)],
        ways: |config, _| {
            let both = || [reading("shared_input", "residual"), reading("shared_input", "layer_input")].concat();
            given(is_shared(config), both)
        },
    },
    Mistake {
        name: "shared_missing",
        about: "the shared expert is left out",
        right: "routed_scaling_factor · routed + shared",
        visible: "a shared expert",
        touches: &[layer(SharedDown), layer(Shared), layer(Mlp)],
        ways: |config, _| {
            let shared = LayerWeight::Shared(Projection::Down);
            given(is_shared(config), || vec![Change::Weights(WeightChange::Zero(shared))])
        },
    },
];

/// Where the activation is SwiGLU-OAI.
fn where_oai(config: &Config, ways: impl Fn() -> Vec<Change>) -> Vec<Change> {
    given(config.swiglu_oai.is_some(), ways)
}

/// Where routed experts are scaled beside a shared one.
fn where_scaled(config: &Config, ways: impl Fn(f64) -> Vec<Change>) -> Vec<Change> {
    let scale = config.routed_scaling_factor;
    given(is_shared(config) && scale != 1.0, || ways(scale))
}

fn is_shared(config: &Config) -> bool {
    config.shared_intermediate_size > 0
}
