"""The cells of the sweep: every way in which people run a model with transformers and dump it."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import torch
from families import FAMILIES

AUTOCAST = {"autocast_bf16": torch.bfloat16, "autocast_f16": torch.float16}
"""What `torch.autocast` casts to, of a model in float32."""

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16} | dict.fromkeys(AUTOCAST, torch.float32)
"""What a model is loaded in."""
ATTENTIONS = ("eager", "sdpa")
EXPERTS = {"default": None, "eager": "eager", "batched": "batched_mm"}
"""Values of `experts_implementation`."""

PARTS = ("*norm*", "*.self_attn", "*.mlp", "*.layers.[0-9]", "logits")
SCOPES = {"all": ("*",), "parts": PARTS, "layers": ("*.layers.[0-9]", "logits")}
"""Patterns of the names that are kept."""

MANY, FEW = 24, 4
"""Prompts of one cell of each family and type, and of every other."""


class Cell(NamedTuple):
    """One way to run a model, and what is kept of it: the names above, a family's and one of its modes."""

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
    for name, family in FAMILIES.items():
        yield from (Cell(name, *rest) for rest in product(TYPES, ATTENTIONS, EXPERTS, family.modes, SCOPES))
