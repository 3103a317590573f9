"""Known mistakes of implementations, each a change to the transformers library while a `with` block runs.

The names are those of the catalogue that `parity diagnose` knows. Each function gets the loaded model and returns a
context manager; what it changes is the least that makes the mistake, and everything else computes as released, to the
last bit: experts come unsorted, as the library's router has them. Here are those that both families can have.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

Inject = Callable[[PreTrainedModel], AbstractContextManager[object]]

WeighedExperts = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""The router's step from logits, correction bias and k to weights and experts."""


class Mistake(NamedTuple):
    """What is wrong, and how to make it wrong."""

    description: str
    inject: Inject


@contextmanager
def everywhere(changes: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    """All of `changes` at once."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


def common(library: ModuleType, router: Callable[[WeighedExperts], Inject]) -> dict[str, Mistake]:
    """The mistakes in a family's module of the library; `router` replaces the step of its routers."""
    return {
        "rope_last_half": Mistake(
            "the last rotary_dim channels of each head rotate, not the first", _rotary(library, _last_half)
        ),
        "rope_interleaved": Mistake(
            "channels 2i and 2i + 1 rotate together, not i and i + rotary_dim / 2", _rotary(library, _interleaved)
        ),
        "rope_theta_500k": Mistake("theta is 500,000", _rope_theta_500k),
        "rope_position_offset": Mistake("positions from 20 on are one too large", _rope_position_offset),
        "gqa_repeat_vs_tile": Mistake(
            "query head h reads key head h mod n, not h div group",
            lambda model: patch.object(library, "repeat_kv", lambda x, times: x.repeat(1, times, 1, 1)),
        ),
        "scale_missing": Mistake("attention logits are not multiplied by head_dim^(-1/2)", _scale_missing),
        "causal_off_by_one": Mistake("each token sees the next one too", _causal_off_by_one(library)),
        "softmax_router": Mistake(
            "the experts are the k largest logits, weighted by their softmax", router(_softmax_weights)
        ),
        "bias_in_weights": Mistake("expert weights are taken from the biased scores", router(_biased_weights)),
        "no_renorm": Mistake("expert weights are not divided by their sum", router(_unnormalized_weights)),
        "topk_k_wrong": Mistake("one expert too few is chosen, or two where it should be one", _topk_k_wrong),
        "w1_w3_swapped": Mistake("a routed expert's activation is applied to w3's output, not to w1's", _w1_w3_swapped),
    }


def _rotary(library: ModuleType, wrong: Callable[..., tuple[Tensor, ...]]) -> Inject:
    apply = library.apply_rotary_pos_emb
    return lambda model: patch.object(library, "apply_rotary_pos_emb", lambda *tensors: wrong(apply, *tensors))


def _last_half(apply: Callable[..., tuple[Tensor, ...]], q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple:
    width = cos.shape[-1]
    first_to_last = [x.roll(width, dims=-1) for x in (q, k)]
    return tuple(x.roll(-width, dims=-1) for x in apply(*first_to_last, cos, sin))


def _interleaved(apply: Callable[..., tuple[Tensor, ...]], q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple:
    half, head_dim = cos.shape[-1] // 2, q.shape[-1]
    pairs = torch.arange(2 * half).view(half, 2).T.flatten()
    to_halves = torch.cat((pairs, torch.arange(2 * half, head_dim)))
    back = to_halves.argsort()
    return tuple(x[..., back] for x in apply(q[..., to_halves], k[..., to_halves], cos, sin))


def _rope_theta_500k(model: PreTrainedModel) -> AbstractContextManager[object]:
    rotary = model.model.rotary_emb
    count = len(rotary.inv_freq)
    return patch.object(rotary, "inv_freq", 1.0 / 500_000.0 ** (torch.arange(count, dtype=torch.float32) / count))


def _rope_position_offset(model: PreTrainedModel) -> AbstractContextManager[object]:
    rotary = model.model.rotary_emb
    forward = rotary.forward
    return patch.object(rotary, "forward", lambda x, position_ids: forward(x, position_ids + (position_ids >= 20)))


def _scale_missing(model: PreTrainedModel) -> AbstractContextManager[object]:
    return everywhere(patch.object(layer.self_attn, "scaling", 1.0) for layer in model.model.layers)


def _causal_off_by_one(library: ModuleType) -> Inject:
    make = library.create_causal_mask

    def wrong(**arguments: object) -> Tensor:
        mask = make(**arguments)
        return torch.full_like(mask, torch.finfo(mask.dtype).min).triu(2)

    return lambda model: patch.object(library, "create_causal_mask", wrong)


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


def expert_blocks(model: PreTrainedModel) -> list[nn.Module]:
    """The feed-forward networks that have experts."""
    return [layer.mlp for layer in model.model.layers if hasattr(layer.mlp, "experts")]


def _topk_k_wrong(model: PreTrainedModel) -> AbstractContextManager[object]:
    k = model.config.num_experts_per_tok
    return everywhere(patch.object(block.gate, "top_k", k - 1 if k > 1 else 2) for block in expert_blocks(model))


def _w1_w3_swapped(model: PreTrainedModel) -> AbstractContextManager[object]:
    def swapped(gate_up: Tensor) -> nn.Parameter:
        gate, up = gate_up.chunk(2, dim=1)
        return nn.Parameter(torch.cat((up, gate), dim=1))

    experts = [block.experts for block in expert_blocks(model)]
    return everywhere(patch.object(one, "gate_up_proj", swapped(one.gate_up_proj)) for one in experts)
