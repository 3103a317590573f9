"""Known mistakes of M2's norms: over which channels, on what, by which weights, and where a device has a part."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from mistakes import Inject, Mistake, attention_parts, everywhere, forwards, weights
from torch import Tensor, nn
from transformers import MiniMaxM2ForCausalLM
from transformers.models.minimax_m2 import modeling_minimax_m2 as library

DEVICES = 2
"""How many share the projections of queries and keys."""

PADDED = 64 / 48
"""The padded width of the queries over their own, where 64 devices share 48 heads."""

REPLICAS = 8
"""How many devices have each key head."""


def _norm(x: Tensor, mean_of_squares: Tensor, norm: nn.Module) -> Tensor:
    return norm.weight * (x.float() * (mean_of_squares + norm.variance_epsilon).rsqrt()).to(x.dtype)


def _by_parts(names: tuple[str, ...], width: Callable[[MiniMaxM2ForCausalLM, int], int]) -> Inject:
    """Each run of so many channels is normalized by its own mean square; `width` has it for a projection's channels."""

    def inject(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
        def wrong(norm: nn.Module) -> Callable[[Tensor], Tensor]:
            def forward(x: Tensor) -> Tensor:
                of_part = width(model, x.shape[-1])
                squares = x.float().unflatten(-1, (-1, of_part)).pow(2).mean(-1)
                return _norm(x, squares.repeat_interleave(of_part, -1), norm)

            return forward

        return forwards(attention_parts(model, *names), wrong)

    return inject


def _sum_times(name: str, factor: float) -> Inject:
    """The sum of squares, over the number of channels, is off by a factor."""

    def wrong(norm: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: _norm(x, factor * x.float().pow(2).mean(-1, keepdim=True), norm)

    return lambda model: forwards(attention_parts(model, name), wrong)


def _first_halves(weight: Tensor, head_dim: int) -> Tensor:
    """The first half of each head's part, twice."""
    heads = weight.unflatten(0, (-1, head_dim))
    return heads[:, : head_dim // 2].repeat(1, 2).flatten()


def _every_norm(wrong: Callable[[nn.Module, Tensor], Tensor]) -> Inject:
    return lambda model: patch.object(library.MiniMaxM2RMSNorm, "forward", wrong)


def _eps_outside(norm: nn.Module, x: Tensor) -> Tensor:
    root = x.float().pow(2).mean(-1, keepdim=True).sqrt()
    return norm.weight * (x.float() / (root + 1e-8)).to(x.dtype)


def _one_plus(norm: nn.Module, x: Tensor) -> Tensor:
    mean_of_squares = x.float().pow(2).mean(-1, keepdim=True)
    return (1 + norm.weight) * (x.float() * (mean_of_squares + norm.variance_epsilon).rsqrt()).to(x.dtype)


def _of_stream(model: MiniMaxM2ForCausalLM) -> list[nn.Module]:
    layers = model.model.layers
    return [norm for layer in layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)] + [
        model.model.norm
    ]


def _centred(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    right = norm.forward
    return lambda x: right(x - x.mean(-1, keepdim=True))


def _unnormed(*names: str) -> Inject:
    return lambda model: forwards(attention_parts(model, *names), lambda norm: lambda x: x)


def _values_normed(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    attentions = [layer.self_attn for layer in model.model.layers]

    def wrong(attention: nn.Module) -> Callable[[Tensor], Tensor]:
        project = attention.v_proj.forward
        return lambda x: attention.k_norm.forward(project(x))

    return everywhere(patch.object(one.v_proj, "forward", wrong(one)) for one in attentions)


def _rotated_first(model: MiniMaxM2ForCausalLM) -> AbstractContextManager[object]:
    rotary, apply, head_dim = model.model.rotary_emb, library.apply_rotary_pos_emb, model.config.head_dim
    make, table = rotary.forward, []

    def remember(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        table[:] = make(x, position_ids)
        return tuple(table)

    def wrong(norm: nn.Module) -> Callable[[Tensor], Tensor]:
        normalize = norm.forward

        def forward(x: Tensor) -> Tensor:
            heads = x.unflatten(-1, (-1, head_dim)).transpose(1, 2)
            return normalize(apply(heads, heads, *table)[0].transpose(1, 2).flatten(-2))

        return forward

    return everywhere(
        (
            patch.object(rotary, "forward", remember),
            forwards(attention_parts(model, "q_norm", "k_norm"), wrong),
            patch.object(library, "apply_rotary_pos_emb", lambda q, k, cos, sin: (q, k)),
        )
    )


NORM_MISTAKES = {
    "qk_per_head_on_M2": Mistake(
        "q and k are normalized head by head, not over the whole projection",
        _by_parts(("q_norm", "k_norm"), lambda model, channels: model.config.head_dim),
    ),
    "qk_local_variance_TP": Mistake(
        "each of two devices normalizes its part of q and k by that part's mean square",
        _by_parts(("q_norm", "k_norm"), lambda model, channels: channels // DEVICES),
    ),
    "qk_rank_const": Mistake(
        "both of two devices take the first one's part of the query norm's weight",
        lambda model: weights(
            attention_parts(model, "q_norm"), "weight", lambda w: w[: len(w) // DEVICES].repeat(DEVICES)
        ),
    ),
    "qk_divisor_padded_q": Mistake(
        "the queries' sum of squares is divided by the padded width", _sum_times("q_norm", 1 / PADDED)
    ),
    "qk_divisor_unreplicated_k": Mistake(
        "the sum of squares counts each of eight replicas of a key head, the divisor one",
        _sum_times("k_norm", REPLICAS),
    ),
    "knorm_elementwise_repeat": Mistake(
        "the key norm's weight is repeated element by element, not head by head, and cut to its length",
        lambda model: weights(
            attention_parts(model, "k_norm"), "weight", lambda w: w.repeat_interleave(REPLICAS)[: len(w)]
        ),
    ),
    "knorm_shard_when_tp_gt_kv": Mistake(
        "the key norm's weight is cut among twice as many ranks as key heads, and each repeats its part over its head",
        lambda model: weights(
            attention_parts(model, "k_norm"), "weight", lambda w: _first_halves(w, model.config.head_dim)
        ),
    ),
    "gemma_plus_one_on_M2": Mistake("every RMSNorm multiplies by one plus its weight", _every_norm(_one_plus)),
    "eps_outside": Mistake(
        "every RMSNorm adds 1e-8 to the root mean square, not epsilon under the root", _every_norm(_eps_outside)
    ),
    "layer_norm_for_rms": Mistake(
        "the norms of the residual stream take the mean off first", lambda model: forwards(_of_stream(model), _centred)
    ),
    "qk_norm_missing": Mistake("q and k are not normalized", _unnormed("q_norm", "k_norm")),
    "qk_norm_not_on_k": Mistake("k is not normalized", _unnormed("k_norm")),
    "qk_norm_on_v": Mistake("v is normalized too, by the norm of k", _values_normed),
    "rope_before_norm": Mistake("q and k rotate before they are normalized", _rotated_first),
}
