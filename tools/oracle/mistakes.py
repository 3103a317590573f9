"""Known mistakes of implementations, each a change to the transformers library while a `with` block runs.

The names are those of the catalogue that `parity diagnose` knows. Each function gets the loaded model and returns a
context manager; what it changes is the least that makes the mistake, and everything else computes as released, to the
last bit: experts come unsorted, as the library's router has them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import nn
from transformers import PreTrainedModel

Inject = Callable[[PreTrainedModel], AbstractContextManager[object]]

LAYERS = ("*.embed_tokens", "*.layers.[0-9]")
"""The residual stream before the first layer and after each."""


class Mistake(NamedTuple):
    """What is wrong, how to make it wrong, and what a dump must keep of it."""

    description: str
    inject: Inject
    kept: tuple[str, ...] = LAYERS
    calls: tuple[int, ...] = ()
    """How many tokens of the prompt go into each call, where there are several."""

    @property
    def shows_more(self) -> bool:
        """Whether it keeps what only its own change shows, since nothing behind it may differ."""
        return any(site.endswith((".choice", ".block_max")) for site in self.kept)


@contextmanager
def everywhere(changes: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    """All of `changes` at once."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


@contextmanager
def showing(modules: Iterable[nn.Module], name: str) -> Iterator[None]:
    """Gives each module a child `name` that returns what it is given: a hook sees there what no module returns."""
    modules = list(modules)
    for module in modules:
        module.add_module(name, nn.Identity())
    try:
        yield
    finally:
        for module in modules:
            delattr(module, name)


def text_model(model: PreTrainedModel) -> nn.Module:
    """The decoder's layers, with their rotary embedding."""
    return getattr(model.model, "language_model", model.model)


def attention_parts(model: PreTrainedModel, *names: str) -> list[nn.Module]:
    """These parts of each layer's attention."""
    return [getattr(layer.self_attn, name) for layer in text_model(model).layers for name in names]


def expert_blocks(model: PreTrainedModel) -> list[nn.Module]:
    """The feed-forward networks that have experts."""
    return [layer.mlp for layer in text_model(model).layers if hasattr(layer.mlp, "experts")]


def forwards(modules: Iterable[nn.Module], wrong: Callable[[nn.Module], Callable]) -> AbstractContextManager[None]:
    """Replaces what each of `modules` computes."""
    return everywhere(patch.object(module, "forward", wrong(module)) for module in modules)


def weights(
    modules: Iterable[nn.Module], name: str, wrong: Callable[[torch.Tensor], torch.Tensor]
) -> AbstractContextManager[None]:
    """Replaces a weight of each of `modules`."""
    return everywhere(
        patch.object(module, name, nn.Parameter(wrong(getattr(module, name)), requires_grad=False))
        for module in modules
    )
