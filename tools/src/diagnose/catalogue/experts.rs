//! Mistakes in the experts, and in the networks like them that all tokens go through.

use reference::LayerSite::{DenseDown, DenseGateUp, ExpertHidden, ExpertOutput, Experts, SharedDown, SharedGateUp};
use reference::Site;
use reference::config::Config;

use super::mistake::{Change, Mistake, given, layer, reading};
use super::weights::{Networks, WeightChange, as_text};

const HIDDEN: &[Site] = &[layer(ExpertHidden)];
/// Of the networks that all tokens go through, too.
const GATE_AND_UP: &[Site] =
    &[layer(ExpertHidden), layer(DenseGateUp), layer(DenseDown), layer(SharedGateUp), layer(SharedDown)];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "w1_w3_swapped",
        about: "the nonlinearity is applied to w3·x instead of w1·x, as when gate and up are stacked the wrong way round",
        right: "w2 · (silu(w1·x) ⊙ w3·x)",
        visible: "always",
        touches: GATE_AND_UP,
        ways: |config, _| of_networks(config, WeightChange::SwapGateAndUp),
    },
    Mistake {
        name: "halves_interleaved",
        about: "gate and up are taken from alternate rows of the stacked weight instead of its halves",
        right: "the first half is the gate",
        visible: "an intermediate size above 1",
        touches: GATE_AND_UP,
        ways: |config, _| of_networks(config, WeightChange::InterleaveHalves),
    },
    Mistake {
        name: "w2_transposed",
        about: "w2 is transposed",
        right: "w2 is [hidden, intermediate]",
        visible: "hidden and intermediate size equal; else shapes tell",
        touches: &[layer(ExpertOutput)],
        ways: |config, _| {
            let square = config.hidden_size == config.intermediate_size;
            given(square, || vec![Change::Weights(WeightChange::TransposeDown)])
        },
    },
    Mistake {
        name: "nongated",
        about: "experts have no gate: w2 · silu(w1·x)",
        right: "w2 · (silu(w1·x) ⊙ w3·x): so the released code; documents 001 (chapter 5.2) and 003 have no gate",
        visible: "always",
        touches: HIDDEN,
        ways: |config, _| given(config.swiglu_oai.is_none(), || reading("expert", "nongated")),
    },
    Mistake {
        name: "activation_gelu",
        about: "GELU, one of its approximations, or ReLU stands in SiLU's place",
        right: "w2 · (silu(w1·x) ⊙ w3·x)",
        visible: "always",
        touches: HIDDEN,
        ways: |config, _| {
            let others = ["geglu", "geglu_tanh", "geglu_quick", "reglu"];
            let all = || others.iter().flat_map(|other| reading("activation", other)).collect();
            given(config.swiglu_oai.is_none(), all)
        },
    },
    Mistake {
        name: "weights_on_input",
        about: "routing weights are multiplied into the experts' inputs, as in Llama 4",
        right: "into their outputs",
        visible: "more than one expert a token",
        touches: &[layer(ExpertHidden), layer(Experts)],
        ways: |config, _| given(config.num_experts_per_tok > 1, || reading("weights_on", "input")),
    },
    Mistake {
        name: "expert_map_shift",
        about: "experts were loaded in the order of their numbers as text, 10 before 2",
        right: "expert n of the router is expert n of the checkpoint",
        visible: "more than ten experts",
        touches: &[layer(ExpertHidden), layer(ExpertOutput)],
        ways: |config, _| {
            let shifted = !as_text(config.num_local_experts).is_sorted();
            given(shifted, || vec![Change::Weights(WeightChange::ExpertsAsText)])
        },
    },
];

/// In the routed experts, in the shared one, and where there are networks that all tokens go through, in these, too.
fn of_networks(config: &Config, change: fn(Networks) -> WeightChange) -> Vec<Change> {
    let others = config.dense_intermediate_size + config.shared_intermediate_size > 0;
    let all = given(others, || vec![Change::Weights(change(Networks::All))]);
    let shared = given(config.shared_intermediate_size > 0, || vec![Change::Weights(change(Networks::Shared))]);
    [vec![Change::Weights(change(Networks::Routed))], shared, all].concat()
}
