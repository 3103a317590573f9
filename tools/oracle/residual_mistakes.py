"""Known mistakes of the residual stream, and of the logits' rows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch
from mistakes import LAYERS, Inject, Mistake
from torch import Tensor, nn
from transformers import PreTrainedModel

Combine = Callable[[nn.Module, Tensor, Tensor, Tensor], Tensor]
"""A layer, its input, what its first norm makes of it and attention of that, to the layer's output."""

TEXT_01 = 3.5565588200778455
"""What MiniMax-Text-01 multiplies its residual stream by."""


def residual_mistakes(layer: type[nn.Module]) -> dict[str, Mistake]:
    """Those of a family's layer."""
    return {
        "residual_scaled": Mistake(
            "the stream is multiplied by 3.5566 before attention's output is added",
            _layers(layer, lambda self, x, normed, attended: _fed(self, x * TEXT_01 + attended)),
        ),
        "block_scaled": Mistake("the experts' output is added twice", _layers(layer, _twice)),
        "block_left_out": Mistake(
            "attention's output is not added", _layers(layer, lambda self, x, normed, attended: _fed(self, x))
        ),
        "residual_left_out": Mistake(
            "the stream goes on as the experts' output", _layers(layer, _experts_alone)
        ),
        "residual_after_norm": Mistake(
            "attention's output is added to the normed stream",
            _layers(layer, lambda self, x, normed, attended: _fed(self, normed + attended)),
        ),
        "parallel_blocks": Mistake(
            "the second norm reads the stream before attention",
            _layers(layer, lambda self, x, normed, attended: x + attended + _network(self, x)),
        ),
        "norm_without_residual": Mistake(
            "the second norm reads attention's output alone",
            _layers(layer, lambda self, x, normed, attended: x + attended + _network(self, attended)),
        ),
        "logits_shifted": Mistake("a row of logits is that of the token before it", _shifted, (*LAYERS, "logits")),
    }


def _layers(layer: type[nn.Module], combine: Combine) -> Inject:
    def wrong(self: nn.Module, hidden_states: Tensor, **given: object) -> Tensor:
        normed = self.input_layernorm(hidden_states)
        attended, _ = self.self_attn(hidden_states=normed, **given)
        return combine(self, hidden_states, normed, attended)

    return lambda model: patch.object(layer, "forward", wrong)


def _network(layer: nn.Module, x: Tensor) -> Tensor:
    return layer.mlp(layer.post_attention_layernorm(x))


def _fed(layer: nn.Module, x: Tensor) -> Tensor:
    return x + _network(layer, x)


def _twice(layer: nn.Module, x: Tensor, normed: Tensor, attended: Tensor) -> Tensor:
    x = x + attended
    y = _network(layer, x)
    return x + y + y


def _experts_alone(layer: nn.Module, x: Tensor, normed: Tensor, attended: Tensor) -> Tensor:
    return _network(layer, x + attended)


def _shifted(model: PreTrainedModel) -> AbstractContextManager[object]:
    forward = model.lm_head.forward

    def wrong(x: Tensor) -> Tensor:
        logits = forward(x)
        return torch.cat((logits[:, :1], logits[:, :-1]), dim=1)

    return patch.object(model.lm_head, "forward", wrong)
