"""Known mistakes of attention, which both families can have."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from unittest.mock import patch

import torch
from mistakes import Inject, Mistake, everywhere, text_model
from torch import Tensor, nn
from transformers import PreTrainedModel


def attention_mistakes(library: ModuleType) -> dict[str, Mistake]:
    """Those of a family's module of the library."""
    return {
        "gqa_repeat_vs_tile": Mistake(
            "query head h reads key head h mod n, not h div group",
            lambda model: patch.object(library, "repeat_kv", lambda x, times: x.repeat(1, times, 1, 1)),
        ),
        "scale_missing": Mistake(
            "attention logits are not multiplied by head_dim^(-1/2)", _scale(lambda head_dim: 1.0)
        ),
        "scale_hidden": Mistake(
            "attention logits are multiplied by (head_dim / 2)^(-1/2)", _scale(lambda head_dim: (head_dim / 2) ** -0.5)
        ),
        "causal_off_by_one": Mistake("each token sees the next one too", _causal_off_by_one(library)),
        "softmax_bf16": Mistake(
            "the softmax takes scores in bfloat16, and gives probabilities in bfloat16",
            lambda model: patch.object(library, "eager_attention_forward", _attention_in_bf16),
        ),
    }


def _scale(scaling: Callable[[int], float]) -> Inject:
    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        attentions = [layer.self_attn for layer in text_model(model).layers]
        return everywhere(patch.object(one, "scaling", scaling(one.head_dim)) for one in attentions)

    return inject


def _causal_off_by_one(library: ModuleType) -> Inject:
    make = library.create_causal_mask

    def wrong(**arguments: object) -> Tensor:
        mask = make(**arguments)
        return torch.full_like(mask, torch.finfo(mask.dtype).min).triu(2)

    return lambda model: patch.object(library, "create_causal_mask", wrong)


def _attention_in_bf16(
    module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float, **rest: object
) -> tuple[Tensor, Tensor]:
    k, v = (x.repeat_interleave(module.num_key_value_groups, dim=1) for x in (k, v))
    scores = (q @ k.mT * scaling + mask).to(torch.bfloat16)
    probabilities = scores.float().softmax(-1).to(torch.bfloat16).to(v.dtype)
    return (probabilities @ v).transpose(1, 2).contiguous(), probabilities
