"""Known mistakes of M3's indexer and of what attention makes of its choice."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from unittest.mock import patch

import torch
from mistakes import Inject, Mistake, everywhere
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM3VLForCausalLM
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as library

Two = tuple[Tensor, Tensor]


def _normalize(indexer: nn.Module, q: Tensor, k: Tensor) -> Two:
    return indexer.q_norm(q), indexer.k_norm(k)


def _own_and_before(blocks: Tensor, own: Tensor, count: int) -> Tensor:
    """The local blocks of each token: its own, and those before it."""
    return (own[:, None] - torch.arange(count)).clamp(min=0)


def _max(scores: Tensor) -> Tensor:
    return scores.amax(-1)


def _per_head(blocks: Tensor) -> Tensor:
    return blocks


@dataclass(frozen=True)
class Steps:
    """The steps of the indexer that a mistake may replace; as they stand, they choose what the library chooses."""

    normalize: Callable[[nn.Module, Tensor, Tensor], Two] = _normalize
    rotate: Callable[[Tensor, Tensor, Tensor, Tensor], Two] = library.apply_rotary_pos_emb
    pool: Callable[[Tensor], Tensor] = _max
    over_heads: Callable[[Tensor], Tensor] = _per_head
    forced: Callable[[Tensor, Tensor, int], Tensor] | None = _own_and_before


def _indexer(steps: Steps) -> Inject:
    """Replaces the choice of blocks; for one pass over a prompt, without a cache."""

    def wrong(self: nn.Module, x: Tensor, rotation: Two, cache: object, position_ids: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (-1, self.head_dim))
        k = self.k_proj(x).unflatten(-1, (1, self.head_dim))
        q, k = (heads.transpose(1, 2) for heads in steps.normalize(self, q, k))
        q, k = steps.rotate(q, k, *rotation)
        length = x.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (q.float() @ k.float().mT).masked_fill(future, -torch.inf)
        scores = functional.pad(scores, (0, -length % self.block_size), value=-torch.inf)
        blocks = steps.over_heads(steps.pool(scores.unflatten(-1, (-1, self.block_size))))
        if steps.forced is not None:
            forced = steps.forced(blocks, torch.arange(length) // self.block_size, self.local_blocks)
            blocks = blocks.scatter(-1, forced.expand(*blocks.shape[:2], -1, -1), torch.inf)
        best = blocks.topk(min(self.topk_blocks, blocks.shape[-1]))
        return best.indices.masked_fill(best.values == -torch.inf, -1)

    return lambda model: patch.object(library.MiniMaxM3VLIndexer, "forward", wrong)


def _swap_norms(indexer: nn.Module, q: Tensor, k: Tensor) -> Two:
    return indexer.k_norm(q), indexer.q_norm(k)


def _rotate_queries(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Two:
    return library.apply_rotary_pos_emb(q, k, cos, sin)[0], k


def _mean(scores: Tensor) -> Tensor:
    seen = scores > -torch.inf
    mean = scores.where(seen, 0).sum(-1) / seen.sum(-1)
    return mean.where(seen.any(-1), -torch.inf)


def _first(blocks: Tensor, own: Tensor, count: int) -> Tensor:
    return torch.zeros(len(own), 1, dtype=torch.long)


def _mask(change: Callable[..., Tensor]) -> Inject:
    """Replaces the mask that attention gets; `change` gets the library's function, then its arguments."""
    build = library.MiniMaxM3VLIndexer.build_block_mask

    def wrong(self: nn.Module, blocks: Tensor, mask: Tensor, *rest: object) -> Tensor:
        return change(lambda mask: build(self, blocks, mask, *rest), mask, blocks.shape[1])

    return lambda model: patch.object(library.MiniMaxM3VLIndexer, "build_block_mask", wrong)


def _modulo_groups(build: Callable[[Tensor], Tensor], mask: Tensor, groups: int) -> Tensor:
    right = build(mask)
    heads = torch.arange(right.shape[1])
    return right[:, heads % groups * (len(heads) // groups)]


def _topk_wrong(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    indexers = [layer.self_attn.indexer for layer in model.model.layers if layer.self_attn.indexer is not None]
    return everywhere(patch.object(one, "topk_blocks", one.topk_blocks - 1) for one in indexers)


INDEXER_MISTAKES = {
    "head_max_selection": Mistake(
        "blocks are scored by the maximum over index heads, one choice for all groups",
        _indexer(Steps(over_heads=lambda blocks: blocks.amax(1, keepdim=True).expand_as(blocks))),
    ),
    "local_is_first_block": Mistake(
        "the first block is always chosen, a token's own is not", _indexer(Steps(forced=_first))
    ),
    "local_missing": Mistake("no block is always chosen", _indexer(Steps(forced=None))),
    "index_norm_missing": Mistake(
        "index queries and keys are not normalized", _indexer(Steps(normalize=lambda indexer, q, k: (q, k)))
    ),
    "index_norm_swapped": Mistake(
        "index queries are multiplied by the keys' norm weight, and keys by the queries'",
        _indexer(Steps(normalize=_swap_norms)),
    ),
    "index_k_pre_rope": Mistake("index keys do not rotate", _indexer(Steps(rotate=_rotate_queries))),
    "index_rope_missing": Mistake(
        "index queries and keys do not rotate", _indexer(Steps(rotate=lambda q, k, cos, sin: (q, k)))
    ),
    "index_mean_pool": Mistake(
        "a block's score is the mean of its tokens', not the largest", _indexer(Steps(pool=_mean))
    ),
    "index_lse": Mistake(
        "a block's score is the logarithm of the sum of its tokens' exponentials, not the largest",
        _indexer(Steps(pool=lambda scores: scores.logsumexp(-1))),
    ),
    "block_topk_wrong": Mistake("one block too few is chosen", _topk_wrong),
    "group_mapping": Mistake(
        "query head h attends to the blocks of group h mod n, not h div group", _mask(_modulo_groups)
    ),
    "block_mask_without_causal": Mistake(
        "chosen blocks are seen whole, later tokens included",
        _mask(lambda build, mask, groups: build(torch.zeros_like(mask))),
    ),
    "sparse_as_full": Mistake("sparse layers attend to every block", _mask(lambda build, mask, groups: mask)),
}
