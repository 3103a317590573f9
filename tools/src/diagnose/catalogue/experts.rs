//! Mistakes in the experts, and in the networks like them that all tokens go through.

use reference::LayerSite::{DenseDown, DenseGateUp, ExpertHidden, ExpertOutput, SharedDown, SharedGateUp};
use reference::Site;
use reference::config::Config;

use super::mistake::{Change, Mistake, layer, reading};
use super::weights::{Networks, WeightChange, as_text};

const HIDDEN: &[Site] = &[layer(ExpertHidden)];
/// Of the networks that all tokens go through, too.
const GATE_AND_UP: &[Site] =
    &[layer(ExpertHidden), layer(DenseGateUp), layer(DenseDown), layer(SharedGateUp), layer(SharedDown)];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "w1_w3_swapped",
        about: "the nonlinearity is applied to w3·x instead of w1·x, as when gate and up are stacked the wrong way round",
        right: "w2 · (silu(w1·x) ⊙ w3·x) (A11, A33)",
        visible: "always",
        touches: GATE_AND_UP,
        ways: |config, _| of_networks(config, WeightChange::SwapGateAndUp),
    },
    Mistake {
        name: "halves_interleaved",
        about: "gate and up are taken from alternate rows of the stacked weight instead of its halves",
        right: "the first half is the gate (A33)",
        visible: "an intermediate size above 1",
        touches: GATE_AND_UP,
        ways: |config, _| of_networks(config, WeightChange::InterleaveHalves),
    },
    Mistake {
        name: "w2_transposed",
        about: "w2 is transposed",
        right: "w2 is [hidden, intermediate] (A11)",
        visible: "hidden and intermediate size equal; else shapes tell",
        touches: &[layer(ExpertOutput)],
        ways: |config, _| {
            let square = config.hidden_size == config.intermediate_size;
            if square { vec![Change::Weights(WeightChange::TransposeDown)] } else { Vec::new() }
        },
    },
    Mistake {
        name: "nongated",
        about: "experts have no gate: w2 · silu(w1·x)",
        right: "w2 · (silu(w1·x) ⊙ w3·x) (D31: the code; S3 and S1 CH5.2's words have none)",
        visible: "always",
        touches: HIDDEN,
        ways: |config, _| if config.swiglu_oai.is_none() { reading("expert", "nongated") } else { Vec::new() },
    },
    Mistake {
        name: "expert_map_shift",
        about: "experts were loaded in the order of their numbers as text, 10 before 2",
        right: "expert n of the router is expert n of the checkpoint (A33)",
        visible: "more than ten experts",
        touches: &[layer(ExpertHidden), layer(ExpertOutput)],
        ways: |config, _| {
            let shifted = !as_text(config.num_local_experts).is_sorted();
            if shifted { vec![Change::Weights(WeightChange::ExpertsAsText)] } else { Vec::new() }
        },
    },
];

/// In the routed experts, and where there are networks that all tokens go through, in these, too.
fn of_networks(config: &Config, change: fn(Networks) -> WeightChange) -> Vec<Change> {
    let others = config.dense_intermediate_size + config.shared_intermediate_size > 0;
    let all = if others { vec![Change::Weights(change(Networks::All))] } else { Vec::new() };
    [vec![Change::Weights(change(Networks::Routed))], all].concat()
}
