"""Known mistakes of what M3's attention makes of the blocks that were chosen."""

import math
from collections.abc import Callable
from unittest.mock import patch

import torch
from mistakes import Inject, Mistake
from torch import Tensor, nn
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as library

BUILD = library.MiniMaxM3VLIndexer.build_block_mask
"""The library's function: chosen blocks to a mask that is added to scores."""


def _mask(change: Callable[..., Tensor]) -> Inject:
    """Replaces the mask that attention gets; `change` gets the library's function, then its arguments."""

    def wrong(self: nn.Module, blocks: Tensor, mask: Tensor, *rest: object) -> Tensor:
        return change(lambda mask: BUILD(self, blocks, mask, *rest), mask, blocks.shape[1])

    return lambda model: patch.object(library.MiniMaxM3VLIndexer, "build_block_mask", wrong)


def _modulo_groups(build: Callable[[Tensor], Tensor], mask: Tensor, groups: int) -> Tensor:
    right = build(mask)
    heads = torch.arange(right.shape[1])
    return right[:, heads % groups * (len(heads) // groups)]


def _own_twice(self: nn.Module, blocks: Tensor, mask: Tensor, *rest: object) -> Tensor:
    right = BUILD(self, blocks, mask, *rest)
    own = torch.arange(right.shape[-1]) // self.block_size
    return right + math.log(2.0) * (own[:, None] == own)


def _tokens_for_groups(self: nn.Module, blocks: Tensor, *rest: object) -> Tensor:
    """Written as [token, group, k], read as [group, token, k]."""
    return BUILD(self, blocks.transpose(1, 2).reshape(blocks.shape), *rest)


def _keys_later(build: Callable[[Tensor], Tensor], mask: Tensor, groups: int) -> Tensor:
    """Of each block the keys that are one later; the first block has the first key, too, and a token sees itself."""
    chosen = build(torch.zeros_like(mask)) == 0
    chosen = torch.cat((chosen[..., :1], chosen[..., :-1]), dim=-1)
    itself = torch.eye(chosen.shape[-1], dtype=torch.bool)
    return torch.zeros_like(mask).masked_fill(~((chosen | itself) & (mask == 0)), torch.finfo(mask.dtype).min)


MASK_MISTAKES = {
    "block_keys_shifted": Mistake("the keys of each block are one later", _mask(_keys_later)),
    "group_mapping": Mistake(
        "query head h attends to the blocks of group h mod n, not h div group", _mask(_modulo_groups)
    ),
    "block_mask_without_causal": Mistake(
        "chosen blocks are seen whole, later tokens included",
        _mask(lambda build, mask, groups: build(torch.zeros_like(mask))),
    ),
    "sparse_as_full": Mistake("sparse layers attend to every block", _mask(lambda build, mask, groups: mask)),
    "duplicate_blocks": Mistake(
        "the own block is read twice, so that its keys count double",
        lambda model: patch.object(library.MiniMaxM3VLIndexer, "build_block_mask", _own_twice),
    ),
    "topk_layout_token_major": Mistake(
        "choices are written with a token's groups together, and read as if a group's tokens were",
        lambda model: patch.object(library.MiniMaxM3VLIndexer, "build_block_mask", _tokens_for_groups),
    ),
}
