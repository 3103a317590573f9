"""Known mistakes of M2 implementations."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from attention_mistakes import attention_mistakes
from expert_mistakes import expert_mistakes
from mistakes import LAYERS, Inject, Mistake, attention_parts, everywhere, expert_blocks, forwards, weights
from m2_norm_mistakes import NORM_MISTAKES
from residual_mistakes import residual_mistakes
from rotary_mistakes import rotary_mistakes
from router_mistakes import WeighedExperts
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM2ForCausalLM
from transformers.models.minimax_m2 import modeling_minimax_m2 as library


def _router(weigh: WeighedExperts) -> Inject:
    def wrong(self: nn.Module, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = functional.linear(x.reshape(-1, self.hidden_dim).to(self.weight.dtype), self.weight)
        return logits, *weigh(logits, bias, self.top_k)

    return lambda model: patch.object(library.MiniMaxM2TopKRouter, "forward", wrong)


def _experts(model: MiniMaxM2ForCausalLM) -> list[nn.Module]:
    return [block.experts for block in expert_blocks(model)]


def _nongated(experts: nn.Module, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    gates = experts.gate_up_proj[:, : experts.intermediate_dim]
    each = [functional.silu(x @ gate.T) @ down.T for gate, down in zip(gates, experts.down_proj, strict=True)]
    share = torch.zeros(len(x), experts.num_experts).scatter_add(1, chosen, weights)
    return sum(share[:, [expert]] * y for expert, y in enumerate(each))


def _in_order_of_text(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    order = sorted(range(model.config.num_local_experts), key=str)
    names = ("gate_up_proj", "down_proj")
    return everywhere(weights(_experts(model), name, lambda w: w[order]) for name in names)


def _head_tied(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    return weights([model.lm_head], "weight", lambda w: model.model.embed_tokens.weight.detach())


MISTAKES = (
    rotary_mistakes(library)
    | attention_mistakes(library)
    | NORM_MISTAKES
    | residual_mistakes(library.MiniMaxM2DecoderLayer)
    | expert_mistakes(_router)
    | {
        "nongated": Mistake(
            "experts have no gate: w2 silu(w1 x)",
            lambda model: patch.object(library.MiniMaxM2Experts, "forward", _nongated),
        ),
        "activation_gelu": Mistake(
            "GELU by tanh stands in SiLU's place",
            lambda model: forwards(
                [experts.act_fn for experts in _experts(model)],
                lambda act: lambda x: functional.gelu(x, approximate="tanh"),
            ),
        ),
        "final_norm_missing": Mistake(
            "the head reads the stream, not its norm",
            lambda model: forwards([model.model.norm], lambda norm: lambda x: x),
            (*LAYERS, "logits"),
        ),
        "halves_interleaved": Mistake(
            "w1 and w3 are read as alternate rows of one weight, not as its halves",
            lambda model: weights(
                _experts(model), "gate_up_proj", lambda w: torch.cat((w[:, ::2], w[:, 1::2]), dim=1)
            ),
        ),
        "w2_transposed": Mistake(
            "w2 is transposed", lambda model: weights(_experts(model), "down_proj", lambda w: w.mT.contiguous())
        ),
        "expert_map_shift": Mistake(
            "experts are in the order of their numbers as text, 10 before 2", _in_order_of_text
        ),
        "missing_keys_ignored": Mistake(
            "the value projections were not loaded, and are 0",
            lambda model: weights(attention_parts(model, "v_proj"), "weight", torch.zeros_like),
        ),
        "head_tied": Mistake("the head's weight is the embedding's", _head_tied, (*LAYERS, "logits")),
    }
)
