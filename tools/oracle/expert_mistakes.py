"""Known mistakes of the router and the experts, which both families can have."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from mistakes import LAYERS, Inject, Mistake, everywhere, expert_blocks, forwards, showing, weights
from router_mistakes import WeighedExperts, router_mistakes, weighed
from torch import Tensor, nn
from transformers import PreTrainedModel

def expert_mistakes(router: Callable[[WeighedExperts], Inject]) -> dict[str, Mistake]:
    """Those of a family; `router` replaces the step of its routers."""
    return router_mistakes(router) | {
        "softmax_router": Mistake(
            "the experts are the k largest logits, weighted by their softmax", router(_softmax_weights)
        ),
        "bias_in_weights": Mistake("expert weights are taken from the biased scores", router(_biased_weights)),
        "bias_dropped": Mistake(
            "experts are chosen without the correction bias",
            router(lambda logits, bias, k: weighed(logits, logits.sigmoid(), k)),
        ),
        "bias_bf16": Mistake(
            "the correction bias is rounded to bfloat16; what experts are chosen by is kept, as few choices change",
            _bias_bf16,
            (*LAYERS, "*.mlp.gate.choice"),
        ),
        "gate_bf16": Mistake(
            "the router's weight is rounded to bfloat16",
            lambda model: weights(
                [block.gate for block in expert_blocks(model)], "weight", lambda w: w.to(torch.bfloat16).float()
            ),
        ),
        "no_renorm": Mistake("expert weights are not divided by their sum", router(_unnormalized_weights)),
        "renorm_all_experts": Mistake(
            "expert weights are divided by the sum over all experts", router(_weights_of_all)
        ),
        "tie_duplicate": Mistake("the best expert is chosen k times", router(_best_again)),
        "topk_k_wrong": Mistake("one expert too few is chosen, or two where it should be one", _topk_k_wrong),
        "w1_w3_swapped": Mistake(
            "a routed expert's activation is applied to w3's output, not to w1's",
            _gate_up(lambda gate_up: torch.cat(gate_up.chunk(2, dim=1)[::-1], dim=1)),
        ),
    }


def _gate_up(wrong: Callable[[Tensor], Tensor]) -> Inject:
    """Replaces the stacked gate and up projections of the routed experts, [experts, 2 intermediate, hidden]."""
    return lambda model: weights([block.experts for block in expert_blocks(model)], "gate_up_proj", wrong)


def _softmax_weights(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    chosen, experts = logits.topk(k, sorted=False)
    return chosen.softmax(-1), experts


def _biased_weights(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    chosen, experts = (logits.sigmoid() + bias).topk(k, sorted=False)
    return chosen / chosen.sum(-1, keepdim=True), experts


def _unnormalized_weights(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    scores = logits.sigmoid()
    experts = (scores + bias).topk(k, sorted=False).indices
    return scores.gather(1, experts), experts


def _weights_of_all(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    scores = logits.sigmoid()
    experts = (scores + bias).topk(k, sorted=False).indices
    return scores.gather(1, experts) / scores.sum(-1, keepdim=True), experts


def _best_again(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    scores = logits.sigmoid()
    experts = (scores + bias).argmax(-1, keepdim=True).expand(-1, k)
    chosen = scores.gather(1, experts)
    return chosen / chosen.sum(-1, keepdim=True), experts


def _bias_bf16(model: PreTrainedModel) -> AbstractContextManager[object]:
    blocks = expert_blocks(model)
    gates = [block.gate for block in blocks]
    holders = [block if hasattr(block, "e_score_correction_bias") else block.gate for block in blocks]
    biases = [holder.e_score_correction_bias.to(torch.bfloat16).float() for holder in holders]

    def wrong(gate: nn.Module) -> Callable[..., tuple[Tensor, ...]]:
        bias, right = biases[gates.index(gate)], gate.forward

        def forward(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
            logits, *others = right(x, *rest)
            gate.choice(logits.sigmoid() + bias)
            return logits, *others

        return forward

    rounded = (
        patch.object(holder, "e_score_correction_bias", bias) for holder, bias in zip(holders, biases, strict=True)
    )
    return everywhere((*rounded, showing(gates, "choice"), forwards(gates, wrong)))


def _topk_k_wrong(model: PreTrainedModel) -> AbstractContextManager[object]:
    k = model.config.num_experts_per_tok
    return everywhere(patch.object(block.gate, "top_k", k - 1 if k > 1 else 2) for block in expert_blocks(model))
