"""What a golden case is, whichever family it is of.

The sizes are tiny and each case bends another one out of shape, so that an implementation that confuses two of them
(head_dim with rotary_dim, heads with groups, hidden with heads times head_dim) is wrong in at least one case.

The seeds were picked from a few hundred, for greedy tokens that lead clearly and choices of experts and blocks that
are not close; `properties` has the limits. That of a bfloat16 case is also one whose choices and tokens are those of
exact arithmetic, so that no rounding, legal as it may be, sends the decode elsewhere.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import torch


class Layout(Enum):
    """How a case's checkpoint is written."""

    HUB = "one file, the hub's config and tensor names"
    SHARDED = "several files and an index, the hub's config and tensor names"
    SAVE_PRETRAINED = "config and tensors as the library's save_pretrained writes them"
    FUSED = (
        "config as save_pretrained writes it, tensors by the library's own names, the experts of a layer in one tensor"
    )


class Library(Enum):
    """A version of transformers that makes cases."""

    V5_23 = "5.23.0"
    V5_12 = "5.12.1"

    @property
    def semantics(self) -> str:
        """Which reading of the documents it computes: up to 5.12, all index heads of M3 choose the same blocks."""
        return "released" if self is Library.V5_23 else "documents,gate_clamp=upper"

    @property
    def requirements(self) -> str:
        """The file with all versions of its environment."""
        return "requirements.txt" if self is Library.V5_23 else "requirements-5.12.txt"


class Sizes(Protocol):
    """The numbers of the hub's config.json that differ from case to case, by their names there."""

    vocab_size: int
    num_hidden_layers: int


@dataclass(frozen=True)
class Case:
    """One golden case. `stored` is the type of the weights on disk, `computed` that of the activations."""

    name: str
    description: str
    sizes: Sizes
    seed: int
    prompt_length: int
    decode_length: int = 24
    layout: Layout = Layout.HUB
    stored: torch.dtype = torch.float32
    computed: torch.dtype = torch.float32
    decode_sites: bool = False
    """Whether each decode step keeps all activations; otherwise it keeps the logits and what was chosen."""
    library: Library = Library.V5_23
