"""Known mistakes of M2 implementations, each a change to the transformers library while a `with` block runs.

The names are those of the catalogue that `parity diagnose` knows. Each function gets the loaded model and returns a
context manager; what it changes is the least that makes the mistake, and everything else computes as released, to the
last bit: experts come unsorted, as the library's router has them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM2ForCausalLM
from transformers.models.minimax_m2 import modeling_minimax_m2 as library


class Mistake(NamedTuple):
    """What is wrong, and how to make it wrong."""

    description: str
    inject: Callable[[MiniMaxM2ForCausalLM], AbstractContextManager[object]]


def _rope_last_half(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    apply = library.apply_rotary_pos_emb

    def wrong(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        width = cos.shape[-1]
        first_to_last = [x.roll(width, dims=-1) for x in (q, k)]
        return tuple(x.roll(-width, dims=-1) for x in apply(*first_to_last, cos, sin))

    return patch.object(library, "apply_rotary_pos_emb", wrong)


def _rope_interleaved(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    apply = library.apply_rotary_pos_emb

    def wrong(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        half, head_dim = cos.shape[-1] // 2, q.shape[-1]
        pairs = torch.arange(2 * half).view(half, 2).T.flatten()
        to_halves = torch.cat((pairs, torch.arange(2 * half, head_dim)))
        back = to_halves.argsort()
        return tuple(x[..., back] for x in apply(q[..., to_halves], k[..., to_halves], cos, sin))

    return patch.object(library, "apply_rotary_pos_emb", wrong)


def _rope_theta_500k(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    rotary = model.model.rotary_emb
    count = len(rotary.inv_freq)
    return patch.object(rotary, "inv_freq", 1.0 / 500_000.0 ** (torch.arange(count, dtype=torch.float32) / count))


def _rope_position_offset(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    rotary = model.model.rotary_emb
    forward = rotary.forward
    return patch.object(rotary, "forward", lambda x, position_ids: forward(x, position_ids + (position_ids >= 20)))


def _gqa_repeat_vs_tile(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    return patch.object(library, "repeat_kv", lambda x, times: x.repeat(1, times, 1, 1))


def _scale_missing(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    return _everywhere(patch.object(layer.self_attn, "scaling", 1.0) for layer in model.model.layers)


def _causal_off_by_one(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    make = library.create_causal_mask

    def wrong(**arguments: object) -> Tensor:
        mask = make(**arguments)
        return torch.full_like(mask, torch.finfo(mask.dtype).min).triu(2)

    return patch.object(library, "create_causal_mask", wrong)


def _qk_per_head(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    head_dim = model.config.head_dim

    def wrong(norm: nn.Module) -> Callable[[Tensor], Tensor]:
        def forward(x: Tensor) -> Tensor:
            heads = x.float().unflatten(-1, (-1, head_dim))
            scaled = heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
            return norm.weight * scaled.flatten(-2).to(x.dtype)

        return forward

    norms = [norm for layer in model.model.layers for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm)]
    return _everywhere(patch.object(norm, "forward", wrong(norm)) for norm in norms)


def _eps_outside(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    def wrong(self: nn.Module, x: Tensor) -> Tensor:
        root = x.float().pow(2).mean(-1, keepdim=True).sqrt()
        return self.weight * (x.float() / (root + 1e-8)).to(x.dtype)

    return patch.object(library.MiniMaxM2RMSNorm, "forward", wrong)


def _router(
    weigh: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
) -> Callable[..., AbstractContextManager[object]]:
    """Replaces the router's step from logits, correction bias and k to weights and experts."""

    def wrong(self: nn.Module, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = functional.linear(x.reshape(-1, self.hidden_dim).to(self.weight.dtype), self.weight)
        return logits, *weigh(logits, bias, self.top_k)

    return lambda model: patch.object(library.MiniMaxM2TopKRouter, "forward", wrong)


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


def _topk_k_wrong(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    k = model.config.num_experts_per_tok
    return _everywhere(patch.object(layer.mlp.gate, "top_k", k - 1 if k > 1 else 2) for layer in model.model.layers)


def _w1_w3_swapped(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    def swapped(gate_up: Tensor) -> nn.Parameter:
        gate, up = gate_up.chunk(2, dim=1)
        return nn.Parameter(torch.cat((up, gate), dim=1))

    experts = [layer.mlp.experts for layer in model.model.layers]
    return _everywhere(patch.object(one, "gate_up_proj", swapped(one.gate_up_proj)) for one in experts)


@contextmanager
def _everywhere(changes: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    """All of `changes` at once."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


MISTAKES = {
    "rope_last_half": Mistake("the last rotary_dim channels of each head rotate, not the first", _rope_last_half),
    "rope_interleaved": Mistake(
        "channels 2i and 2i + 1 rotate together, not i and i + rotary_dim / 2", _rope_interleaved
    ),
    "rope_theta_500k": Mistake("theta is 500,000", _rope_theta_500k),
    "rope_position_offset": Mistake("positions from 20 on are one too large", _rope_position_offset),
    "gqa_repeat_vs_tile": Mistake("query head h reads key head h mod n, not h div group", _gqa_repeat_vs_tile),
    "scale_missing": Mistake("attention logits are not multiplied by head_dim^(-1/2)", _scale_missing),
    "causal_off_by_one": Mistake("each token sees the next one too", _causal_off_by_one),
    "qk_per_head_on_M2": Mistake("q and k are normalized head by head, not over the whole projection", _qk_per_head),
    "eps_outside": Mistake("every RMSNorm adds 1e-8 to the root mean square, not epsilon under the root", _eps_outside),
    "softmax_router": Mistake(
        "the experts are the k largest logits, weighted by their softmax", _router(_softmax_weights)
    ),
    "bias_in_weights": Mistake("expert weights are taken from the biased scores", _router(_biased_weights)),
    "no_renorm": Mistake("expert weights are not divided by their sum", _router(_unnormalized_weights)),
    "topk_k_wrong": Mistake("one expert too few is chosen, or two where it should be one", _topk_k_wrong),
    "w1_w3_swapped": Mistake("SiLU is applied to w3's output, not to w1's", _w1_w3_swapped),
}
