"""The cells of the sweep: every way in which people run a model with transformers and dump it."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import torch

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ATTENTIONS = ("eager", "sdpa")
EXPERTS = {"default": None, "eager": "eager", "batched": "batched_mm"}
"""Values of `experts_implementation`."""

MODES = {
    "m2": ("prefill", "generate", "static", "chunks", "left", "left-generate", "right"),
    "m3": ("prefill", "generate", "static", "chunks", "right"),
    "vision": ("prefill", "generate", "static"),
}
"""How the model is called, by family. transformers' M3 under left padding is wrong, and images of a batch are not told
apart: neither is here."""

PARTS = ("*norm*", "*.self_attn", "*.mlp", "*.layers.[0-9]", "logits")
SCOPES = {"all": ("*",), "parts": PARTS, "layers": ("*.layers.[0-9]", "logits")}
"""Patterns of the names that are kept."""

MANY, FEW = 24, 4
"""Prompts of one cell of each family and type, and of every other."""


class Cell(NamedTuple):
    """One way to run a model, and what is kept of it, by the names above."""

    family: str
    type: str
    attention: str
    experts: str
    mode: str
    scope: str

    def __str__(self) -> str:
        return "/".join(self)

    @property
    def prompts(self) -> int:
        """How many prompts it has."""
        return MANY if self[2:] == ("sdpa", "default", "prefill", "all") else FEW


def cells() -> Iterator[Cell]:
    """All of them."""
    for family, modes in MODES.items():
        yield from (Cell(family, *rest) for rest in product(TYPES, ATTENTIONS, EXPERTS, modes, SCOPES))
