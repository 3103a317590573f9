"""Known mistakes of the rotary position embedding, which both families can have."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from unittest.mock import patch

import torch
from mistakes import Inject, Mistake, text_model
from torch import Tensor
from transformers import PreTrainedModel

Rotate = Callable[..., tuple[Tensor, Tensor]]
"""The library's function: queries, keys, cosines and sines to rotated queries and keys."""


def rotary_mistakes(library: ModuleType) -> dict[str, Mistake]:
    """Those of a family's module of the library."""
    return {
        "rope_full_128": Mistake("all channels of a head rotate", _frequencies(lambda c: (c.head_dim, c.head_dim))),
        "rope_double_partial": Mistake(
            "half as many channels rotate as should",
            _frequencies(lambda c: (c.rotary_dim // 4 * 2, c.rotary_dim // 4 * 2)),
        ),
        "rope_wrong_dim_in_freq": Mistake(
            "the frequencies' exponent is divided by head_dim", _frequencies(lambda c: (c.rotary_dim, c.head_dim))
        ),
        "rope_last_half": Mistake(
            "the last rotary_dim channels of each head rotate, not the first", _rotary(library, _last_half)
        ),
        "rope_interleaved": Mistake(
            "channels 2i and 2i + 1 rotate together, not i and i + rotary_dim / 2", _rotary(library, _interleaved)
        ),
        "rope_theta_500k": Mistake("theta is 500,000", _theta(500_000.0)),
        "rope_theta_10k": Mistake("theta is 10,000", _theta(10_000.0)),
        "rope_position_offset": Mistake(
            "positions from 20 on are one too large", _positions(lambda ids: ids + (ids >= 20))
        ),
        "rope_bf16_position": Mistake(
            "positions are rounded to bfloat16, which holds each up to 256 only",
            _positions(lambda ids: ids.to(torch.bfloat16).float()),
        ),
        "kv_cache_pre_rope": Mistake(
            "keys do not rotate", _rotary(library, lambda apply, q, k, cos, sin: (apply(q, k, cos, sin)[0], k))
        ),
        "key_position_offset": Mistake("keys are rotated by their positions plus 2", _keys_later(library)),
        "rope_attention_factor": Mistake(
            "cosines and sines are multiplied by 1 + 0.1 ln 10",
            lambda model: patch.object(text_model(model).rotary_emb, "attention_scaling", 1 + 0.1 * math.log(10)),
        ),
        "rope_linear_scaling": Mistake("inverse frequencies are divided by 3", _inverse(lambda inverse: inverse / 3)),
        "rope_frequencies_bf16": Mistake(
            "inverse frequencies are rounded to bfloat16", _inverse(lambda inverse: inverse.to(torch.bfloat16).float())
        ),
        "rope_angles_bf16": Mistake("angles are rounded to bfloat16", _angles_in_bf16),
        "rope_restarted": Mistake(
            "positions count from 0 in every call", _positions(lambda ids: ids - ids.min()), calls=(30, 8, 1, 1)
        ),
        "rope_missing_in_decode": Mistake(
            "keys of calls of one token do not rotate", _rotary(library, _keys_of_one), calls=(37, 1, 1, 1)
        ),
        "rope_missing": Mistake("nothing rotates", _rotary(library, lambda apply, q, k, cos, sin: (q, k))),
    }


def _rotary(library: ModuleType, wrong: Callable[..., tuple[Tensor, ...]]) -> Inject:
    apply = library.apply_rotary_pos_emb
    return lambda model: patch.object(library, "apply_rotary_pos_emb", lambda *tensors: wrong(apply, *tensors))


def _last_half(apply: Rotate, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple:
    width = cos.shape[-1]
    first_to_last = [x.roll(width, dims=-1) for x in (q, k)]
    return tuple(x.roll(-width, dims=-1) for x in apply(*first_to_last, cos, sin))


def _interleaved(apply: Rotate, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple:
    half, head_dim = cos.shape[-1] // 2, q.shape[-1]
    pairs = torch.arange(2 * half).view(half, 2).T.flatten()
    to_halves = torch.cat((pairs, torch.arange(2 * half, head_dim)))
    back = to_halves.argsort()
    return tuple(x[..., back] for x in apply(q[..., to_halves], k[..., to_halves], cos, sin))


def _keys_of_one(apply: Rotate, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple:
    rotated = apply(q, k, cos, sin)
    return (rotated[0], k) if k.shape[2] == 1 else rotated


def _keys_later(library: ModuleType) -> Inject:
    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        rotary = text_model(model).rotary_emb

        def wrong(apply: Rotate, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple:
            later = rotary.forward(k, torch.arange(k.shape[2])[None] + 2)
            return apply(q, q, cos, sin)[0], apply(k, k, *later)[1]

        return _rotary(library, wrong)(model)

    return inject


def _inverse(wrong: Callable[[Tensor], Tensor]) -> Inject:
    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        rotary = text_model(model).rotary_emb
        return patch.object(rotary, "inv_freq", wrong(rotary.inv_freq))

    return inject


def _angles_in_bf16(model: PreTrainedModel) -> AbstractContextManager[object]:
    rotary = text_model(model).rotary_emb

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = (position_ids[..., None].float() * rotary.inv_freq).to(torch.bfloat16).float()
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    return patch.object(rotary, "forward", forward)


def _frequencies(widths: Callable[..., tuple[int, int]]) -> Inject:
    """Other frequencies, by how many channels rotate and what the exponent is divided by."""

    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        config, rotary = text_model(model).config, text_model(model).rotary_emb
        rotated, divisor = widths(config)
        theta = config.rope_parameters["rope_theta"]
        inverse = 1.0 / theta ** (torch.arange(0, rotated, 2, dtype=torch.float32) / divisor)
        return patch.object(rotary, "inv_freq", inverse)

    return inject


def _theta(theta: float) -> Inject:
    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        rotary = text_model(model).rotary_emb
        count = len(rotary.inv_freq)
        return patch.object(rotary, "inv_freq", 1.0 / theta ** (torch.arange(count, dtype=torch.float32) / count))

    return inject


def _positions(wrong: Callable[[Tensor], Tensor]) -> Inject:
    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        rotary = text_model(model).rotary_emb
        forward = rotary.forward
        return patch.object(rotary, "forward", lambda x, position_ids: forward(x, wrong(position_ids)))

    return inject
