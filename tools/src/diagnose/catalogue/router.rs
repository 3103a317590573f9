//! Mistakes in the router.

use reference::LayerSite::{GateChoice, GateExperts, GateLogits, GateScores, GateWeights};
use reference::Site;
use reference::weights::LayerWeight;

use super::mistake::{Change, Mistake, given, layer, reading};
use super::weights::WeightChange;

const SCORES: &[Site] = &[layer(GateScores), layer(GateChoice), layer(GateExperts), layer(GateWeights)];
const CHOICE: &[Site] = &[layer(GateChoice), layer(GateExperts), layer(GateWeights)];

/// Groups, and those of them that are chosen from: as released models have them, or half as many.
const GROUPS: [(usize, usize); 6] = [(8, 4), (4, 2), (2, 1), (4, 1), (8, 2), (8, 3)];

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
        name: "bias_in_logits",
        about: "the correction bias is added to the logits, so that it goes through the sigmoid and into the weights",
        right: "experts are chosen by σ(z) + bias, and weighed by σ(z)",
        visible: "biases that differ",
        touches: SCORES,
        ways: |_, _| reading("router_score", "biased_sigmoid"),
    },
    Mistake {
        name: "bias_subtracted",
        about: "the correction bias is taken off the scores instead of being added to them",
        right: "experts are chosen by score plus bias",
        visible: "biases that change a choice",
        touches: CHOICE,
        ways: |_, _| vec![Change::Weights(WeightChange::Scaled(LayerWeight::CorrectionBias, -1.0))],
    },
    Mistake {
        name: "softmax_of_chosen",
        about: "experts are chosen by score plus bias, but weighed by the softmax of their logits",
        right: "each chosen score over the sum of them",
        visible: "more than one expert a token",
        touches: &[layer(GateScores), layer(GateWeights)],
        ways: |config, _| given(config.num_experts_per_tok > 1, || reading("router_score", "softmax_chosen")),
    },
    Mistake {
        name: "sqrt_softplus_router",
        about: "scores are √softplus(z), as in DeepSeek-V4",
        right: "σ(z)",
        visible: "always",
        touches: SCORES,
        ways: |_, _| reading("router_score", "sqrt_softplus"),
    },
    Mistake {
        name: "group_limited_choice",
        about: "experts are chosen from the best groups alone, as in DeepSeek-V3",
        right: "from all",
        visible: "choices that span more groups",
        touches: CHOICE,
        ways: |config, _| {
            let fits = |(groups, chosen): &(usize, usize)| {
                let each = config.num_local_experts / groups;
                let whole = config.num_local_experts.is_multiple_of(*groups) && each > 1;
                whole && chosen * each >= config.num_experts_per_tok
            };
            let groups = GROUPS.iter().filter(|groups| fits(groups));
            groups.map(|(n, chosen)| Change::Reading("expert_groups", format!("{n}/{chosen}"))).collect()
        },
    },
    Mistake {
        name: "expert_never_chosen",
        about: "the first or the last expert is never chosen, as where a range is off by one",
        right: "every expert can be",
        visible: "tokens of that expert",
        touches: CHOICE,
        ways: |config, _| {
            let room = config.num_local_experts > config.num_experts_per_tok;
            given(room, || [reading("expert_choice", "not_last"), reading("expert_choice", "not_first")].concat())
        },
    },
    Mistake {
        name: "router_unnormed",
        about: "the router reads the residual stream instead of its norm",
        right: "it reads what the experts read",
        visible: "always",
        touches: &[layer(GateLogits)],
        ways: |config, _| {
            let both = || [reading("router_input", "residual"), reading("router_input", "layer_input")].concat();
            given(config.num_local_experts > 0, both)
        },
    },
    Mistake {
        name: "router_bf16",
        about: "the router's input, weight and logits are rounded to bf16, or its scores",
        right: "the router is f32",
        visible: "inputs or a weight that are no bf16",
        touches: &[layer(GateLogits), layer(GateScores)],
        ways: |_, _| [reading("router_logits", "bf16"), reading("router_scores", "bf16")].concat(),
    },
    Mistake {
        name: "routing_weights_dropped",
        about: "routing weights are left out, or all alike: 1, or 1/k",
        right: "each chosen score over the sum of them",
        visible: "more than one expert a token",
        touches: &[layer(GateWeights)],
        ways: |config, _| {
            let both = || [reading("routing_weights", "ones"), reading("routing_weights", "uniform")].concat();
            given(config.num_experts_per_tok > 1, both)
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
            let others = [k - 1, k + 1, 1, 2, 4, 8].into_iter().filter(|n| (1..=experts).contains(n) && *n != k);
            let mut others: Vec<usize> = others.collect();
            others.sort_unstable();
            others.dedup();
            others.iter().map(|n| Change::Reading("top_k", n.to_string())).collect()
        },
    },
];
