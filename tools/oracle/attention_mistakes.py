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
        "soft_cap": Mistake("scores become 15 tanh(score / 15)", _attention(library, scores=_capped)),
        "attention_sink": Mistake(
            "the softmax's denominator has exp(1.5) more", _attention(library, softmax=_with_sink)
        ),
        "sliding_window": Mistake(
            "a token sees itself and the 23 before it", _mask(library, lambda seen: seen.triu(-23))
        ),
        "prefix_both_ways": Mistake("the first 10 tokens see each other both ways", _mask(library, _prefix)),
        "no_mask": Mistake("a token sees all others", _mask(library, torch.ones_like)),
        "query_temperature": Mistake(
            "rotated queries at t are multiplied by 1 + 0.1 ln(1 + (t + 1) div 16)", _rotated(library, _tempered)
        ),
        "values_rotated": Mistake("values are rotated like keys", _values_rotated(library)),
        "kv_cache_narrow": Mistake(
            "rotated keys, and values, are rounded to float8_e4m3fn",
            _attention(library, keys=lambda x, first: x.to(torch.float8_e4m3fn).to(x.dtype)),
        ),
        "kv_cache_seam": Mistake(
            "the first row of each later call overwrites the last of the calls before it, too",
            _attention(library, keys=_overwritten),
            calls=(16, 16, 8),
        ),
        "kv_cache_read_narrow": Mistake(
            "rotated keys, and values, of the calls before are rounded to float8_e4m3fn",
            _attention(library, keys=_read_narrow),
            calls=(16, 16, 8),
        ),
        "kv_cache_whole_pages": Mistake(
            "of the calls before, keys of whole pages of 8 are seen alone",
            _mask(library, _of_whole_pages),
            calls=(20, 6, 6, 8),
        ),
    }


def _attention(
    library: ModuleType,
    scores: Callable[[Tensor], Tensor] = lambda x: x,
    softmax: Callable[[Tensor], Tensor] = lambda x: x.softmax(-1),
    keys: Callable[[Tensor, int], Tensor] = lambda x, first: x,
) -> Inject:
    """Replaces the scaled scores, their softmax, or the keys and values, of which a call's own begin at `first`."""

    def wrong(
        module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scaling: float, **rest: object
    ) -> tuple[Tensor, Tensor]:
        k, v = (
            keys(x, k.shape[2] - q.shape[2]).repeat_interleave(module.num_key_value_groups, dim=1) for x in (k, v)
        )
        probabilities = softmax(scores(q @ k.mT * scaling) + mask)
        return (probabilities @ v).transpose(1, 2).contiguous(), probabilities

    return lambda model: patch.object(library, "eager_attention_forward", wrong)


def _capped(scores: Tensor) -> Tensor:
    return 15 * torch.tanh(scores / 15)


def _with_sink(scores: Tensor) -> Tensor:
    sink = torch.full_like(scores[..., :1], 1.5)
    return torch.cat((scores, sink), dim=-1).softmax(-1)[..., :-1]


def _overwritten(x: Tensor, first: int) -> Tensor:
    x = x.clone()
    if first > 0:
        x[:, :, first - 1] = x[:, :, first]
    return x


def _read_narrow(x: Tensor, first: int) -> Tensor:
    return torch.cat((x[:, :, :first].to(torch.float8_e4m3fn).to(x.dtype), x[:, :, first:]), dim=2)


def _of_whole_pages(seen: Tensor) -> Tensor:
    first = seen.shape[-1] - seen.shape[-2]
    seen = seen.clone()
    seen[..., first // 8 * 8 : first] = False
    return seen


def _prefix(seen: Tensor) -> Tensor:
    seen = seen.clone()
    seen[..., :10, :10] = True
    return seen


def _mask(library: ModuleType, change: Callable[[Tensor], Tensor]) -> Inject:
    """Replaces which token sees which of all keys, in each call."""
    make = library.create_causal_mask

    def wrong(**arguments: object) -> Tensor:
        mask = make(**arguments)
        return torch.zeros_like(mask).masked_fill(~change(mask == 0), torch.finfo(mask.dtype).min)

    return lambda model: patch.object(library, "create_causal_mask", wrong)


def _rotated(library: ModuleType, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Inject:
    """Changes rotated queries and keys."""
    apply = library.apply_rotary_pos_emb
    return lambda model: patch.object(library, "apply_rotary_pos_emb", lambda *given: change(*apply(*given)))


def _tempered(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    groups = (torch.arange(q.shape[2]) + 1) // 16
    return q * (1 + 0.1 * torch.log1p(groups.float()))[:, None], k


def _values_rotated(library: ModuleType) -> Inject:
    apply, attend = library.apply_rotary_pos_emb, library.eager_attention_forward
    tables: list[tuple[Tensor, Tensor]] = []

    def remember(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        tables[:] = [(cos, sin)]
        return apply(q, k, cos, sin)

    def wrong(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, *rest: object, **named: object) -> tuple:
        return attend(module, q, k, apply(v, v, *tables[0])[0], *rest, **named)

    return lambda model: everywhere(
        (
            patch.object(library, "apply_rotary_pos_emb", remember),
            patch.object(library, "eager_attention_forward", wrong),
        )
    )


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
