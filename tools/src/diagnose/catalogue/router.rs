//! Mistakes in the router.

use reference::LayerSite::{GateChoice, GateExperts, GateLogits, GateScores, GateWeights};
use reference::Site;

use super::mistake::{Change, Mistake, given, layer, reading};
use super::weights::WeightChange;

const SCORES: &[Site] = &[layer(GateScores), layer(GateChoice), layer(GateExperts), layer(GateWeights)];
const CHOICE: &[Site] = &[layer(GateChoice), layer(GateExperts), layer(GateWeights)];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "softmax_router",
        about: "experts are scored by a softmax instead of the sigmoid",
        right: "the sigmoid of each logit: so the released code, and all documents but 003",
        visible: "always",
        touches: SCORES,
        ways: |_, _| [reading("router_score", "softmax_topk"), reading("router_score", "softmax")].concat(),
    },
    Mistake {
        name: "bias_in_weights",
        about: "the correction bias goes into the routing weights, not only into the choice",
        right: "weights are the scores without it: so the released code, and documents 001, 002 and 004",
        visible: "biases that differ, and more than one expert a token",
        touches: &[layer(GateWeights)],
        ways: |config, _| given(config.num_experts_per_tok > 1, || reading("routing_weights", "biased")),
    },
    Mistake {
        name: "bias_dropped",
        about: "experts are chosen without the correction bias",
        right: "they are chosen by score plus bias",
        visible: "biases that change a choice",
        touches: CHOICE,
        ways: |_, _| vec![Change::Weights(WeightChange::NoBias)],
    },
    Mistake {
        name: "bias_bf16",
        about: "the correction bias was rounded to bf16 when it was loaded",
        right: "it is f32, as released",
        visible: "biases that are no bf16",
        touches: CHOICE,
        ways: |_, _| vec![Change::Weights(WeightChange::BiasInBf16)],
    },
    Mistake {
        name: "gate_bf16",
        about: "the router's weight was rounded to bf16 when it was loaded",
        right: "it is f32, as released",
        visible: "weights that are no bf16",
        touches: &[layer(GateLogits)],
        ways: |_, _| vec![Change::Weights(WeightChange::GateInBf16)],
    },
    Mistake {
        name: "no_renorm",
        about: "routing weights are not divided by their sum",
        right: "they sum to 1",
        visible: "always",
        touches: &[layer(GateWeights)],
        ways: |_, _| reading("renormalize", "nothing"),
    },
    Mistake {
        name: "renorm_all_experts",
        about: "routing weights are divided by the sum over all experts",
        right: "they are divided by the chosen experts' sum",
        visible: "experts that are not chosen",
        touches: &[layer(GateWeights)],
        ways: |config, _| {
            let all = config.num_experts_per_tok == config.num_local_experts;
            given(!all, || reading("renormalize", "all"))
        },
    },
    Mistake {
        name: "tie_duplicate",
        about: "the best expert is taken again and again, because it is not masked once it is chosen",
        right: "a token is sent to different experts",
        visible: "more than one expert a token",
        touches: CHOICE,
        ways: |config, _| given(config.num_experts_per_tok > 1, || reading("expert_choice", "best")),
    },
    Mistake {
        name: "topk_k_wrong",
        about: "a token is sent to another number of experts",
        right: "num_experts_per_tok of the configuration",
        visible: "always",
        touches: CHOICE,
        ways: |config, _| {
            let (k, experts) = (config.num_experts_per_tok, config.num_local_experts);
            let others = [k - 1, k + 1, 2, 4, 8].into_iter().filter(|n| (1..=experts).contains(n) && *n != k);
            let mut others: Vec<usize> = others.collect();
            others.sort_unstable();
            others.dedup();
            others.iter().map(|n| Change::Reading("top_k", n.to_string())).collect()
        },
    },
];
