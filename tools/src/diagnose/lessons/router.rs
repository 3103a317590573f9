//! Of the router.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "softmax_router",
        numbers: "The order of the logits is kept, but the correction bias, made for sigmoids, outweighs softmax's \
                  small numbers: other experts are chosen, and weighed otherwise.",
        mend: "Score by the sigmoid of each logit (scoring_func of config.json).",
        wrong: "scores = logits.softmax(-1)",
        right: "scores = logits.sigmoid()",
    },
    Lesson {
        name: "bias_in_weights",
        numbers: "Choices are right. Weights lean to experts of a large bias by a few per cent: the quality suffers \
                  and nothing fails.",
        mend: "Choose by score plus bias, then gather the scores without it.",
        wrong: "weights, experts = (scores + bias).topk(k)",
        right: "experts = (scores + bias).topk(k).indices; weights = scores.gather(-1, experts)",
    },
    Lesson {
        name: "bias_dropped",
        numbers: "Tokens whose best experts are close go to others; weights of those that agree are right. The load \
                  is uneven.",
        mend: "Load e_score_correction_bias, and add it for the choice; check that its name was matched.",
        wrong: "experts = scores.topk(k).indices",
        right: "experts = (scores + e_score_correction_bias).topk(k).indices",
    },
    Lesson {
        name: "bias_bf16",
        numbers: "Biases are off by up to 2⁻⁸ of themselves, more than many gaps between experts: some tokens, in the \
                  released model up to most of them, go to other experts.",
        mend: "Keep the bias in float32 when the model is loaded or cast.",
        wrong: "model.to(torch.bfloat16)  # casts e_score_correction_bias, too",
        right: "gate.e_score_correction_bias.data = checkpoint_bias.float()",
    },
    Lesson {
        name: "gate_bf16",
        numbers: "Logits are off by some per mille of their terms: near ties flip, and weights are slightly wrong.",
        mend: "Keep the router's weight in float32, as it is released, and exempt it from casts and quantization.",
        wrong: "logits = F.linear(x, gate.weight.bfloat16())",
        right: "logits = F.linear(x.float(), gate.weight.float())",
    },
    Lesson {
        name: "no_renorm",
        numbers: "Routing weights sum to up to k instead of 1: the experts' output is too large by a factor of each \
                  token's own.",
        mend: "Divide the chosen scores by their sum (norm_topk_prob).",
        wrong: "weights = scores.gather(-1, experts)",
        right: "weights = scores.gather(-1, experts); weights = weights / weights.sum(-1, keepdim=True)",
    },
    Lesson {
        name: "renorm_all_experts",
        numbers: "Routing weights sum to far less than 1: the experts' output is too small, by a factor of each \
                  token's own.",
        mend: "Divide by the sum of the chosen scores.",
        wrong: "weights = weights / scores.sum(-1, keepdim=True)",
        right: "weights = weights / weights.sum(-1, keepdim=True)",
    },
    Lesson {
        name: "bias_in_logits",
        numbers: "The bias goes through the sigmoid: choices differ where it flattens, and weights are wrong wherever \
                  biases are not equal.",
        mend: "Add the bias behind the sigmoid; the gate's Linear has none.",
        wrong: "scores = (F.linear(x, gate.weight) + bias).sigmoid()",
        right: "scores = F.linear(x, gate.weight).sigmoid(); choice = scores + bias",
    },
    Lesson {
        name: "bias_subtracted",
        numbers: "Experts that are to be preferred are avoided, and the other way round: choices differ, the weights \
                  of those that agree are right.",
        mend: "Add the bias to the scores.",
        wrong: "experts = (scores - bias).topk(k).indices",
        right: "experts = (scores + bias).topk(k).indices",
    },
    Lesson {
        name: "softmax_of_chosen",
        numbers: "Choices are right. Weights are proportional to eᶻ instead of σ(z), so that the best expert gets too \
                  much.",
        mend: "Divide the chosen sigmoids by their sum; do not take a softmax of the chosen logits.",
        wrong: "weights = logits.gather(-1, experts).softmax(-1)",
        right: "weights = scores.gather(-1, experts); weights = weights / weights.sum(-1, keepdim=True)",
    },
    Lesson {
        name: "sqrt_softplus_router",
        numbers: "Scores have no upper limit, so that large logits weigh more and the bias less: other experts, and \
                  other weights.",
        mend: "Score by the sigmoid; √softplus is of DeepSeek-V4.",
        wrong: "scores = F.softplus(logits).sqrt()",
        right: "scores = logits.sigmoid()",
    },
    Lesson {
        name: "group_limited_choice",
        numbers: "Tokens whose best experts lie in several groups lose some of them for worse ones in the chosen \
                  groups; others are right.",
        mend: "Choose among all experts: n_group and topk_group are 1, or absent.",
        wrong: "experts = grouped_topk(scores + bias, k, n_group=8, topk_group=4)",
        right: "experts = (scores + bias).topk(k).indices",
    },
    Lesson {
        name: "expert_never_chosen",
        numbers: "Tokens that should go to the first or the last expert go to the next best; all others are right. \
                  One expert in 256 is rare enough to be missed.",
        mend: "Let loops and masks cover experts 0 to E − 1.",
        wrong: "for e in range(1, num_experts): ...",
        right: "for e in range(num_experts): ...",
    },
    Lesson {
        name: "router_unnormed",
        numbers: "Logits grow with the stream, layer by layer, and lack the norm's weight: sigmoids saturate, choices \
                  are others.",
        mend: "Give router and experts the same normed hidden state.",
        wrong: "mlp = experts(norm(h), route(h))",
        right: "x = norm(h); mlp = experts(x, route(x))",
    },
    Lesson {
        name: "router_bf16",
        numbers: "Logits or scores have eight bits: a score near 1 is off by up to 0.002, and near ties between \
                  experts flip.",
        mend: "Compute the router in float32, outside autocast: input, weight, logits, sigmoid and choice.",
        wrong: "scores = F.linear(x.bfloat16(), gate.weight.bfloat16()).sigmoid()",
        right: "scores = F.linear(x.float(), gate.weight.float()).sigmoid()",
    },
    Lesson {
        name: "routing_weights_dropped",
        numbers: "Choices are right and all chosen experts count alike: too large by k where weights are 1, wrongly \
                  mixed where they are 1/k.",
        mend: "Multiply each expert's output by its routing weight.",
        wrong: "out.index_add_(0, tokens, expert(x[tokens]))",
        right: "out.index_add_(0, tokens, expert(x[tokens]) * weights[tokens, slot, None])",
    },
    Lesson {
        name: "tie_duplicate",
        numbers: "A token goes to its best expert k times: the output is that one expert's.",
        mend: "Set a chosen score to −∞ before the next is looked for, or use topk.",
        wrong: "experts = torch.stack([choice.argmax(-1) for _ in range(k)], -1)",
        right: "experts = choice.topk(k).indices",
    },
    Lesson {
        name: "topk_k_wrong",
        numbers: "Experts are missing or too many, and the weights of all others are off by what those take of the \
                  sum.",
        mend: "Read num_experts_per_tok: 8 for M2, 4 for M3.",
        wrong: "experts = choice.topk(2).indices",
        right: "experts = choice.topk(config.num_experts_per_tok).indices",
    },
];
