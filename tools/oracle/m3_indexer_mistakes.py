"""Known mistakes of M3's indexer."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from unittest.mock import patch

import torch
from mistakes import LAYERS, Inject, Mistake, everywhere, showing, text_model
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM3VLForCausalLM
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as library

Two = tuple[Tensor, Tensor]

SCORED = (*LAYERS, "*.indexer.block_max")
"""With the largest score of each block, for what its choice does not tell."""


def _normalize(indexer: nn.Module, q: Tensor, k: Tensor) -> Two:
    return indexer.q_norm(q), indexer.k_norm(k)


def _own_and_before(blocks: Tensor, own: Tensor, count: int) -> Tensor:
    """The local blocks of each token: its own, and those before it."""
    return (own[:, None] - torch.arange(count)).clamp(min=0)


def _own_and_first(blocks: Tensor, own: Tensor, count: int) -> Tensor:
    return torch.cat((_own_and_before(blocks, own, count), torch.zeros(len(own), 1, dtype=torch.long)), dim=1)


def _later(length: int, size: int) -> Tensor:
    """Which tokens come after which, [token, key]."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def _later_block(length: int, size: int) -> Tensor:
    """Which tokens are in later blocks than which."""
    own = torch.arange(length) // size
    return own[:, None] < own


def _as_they_are(scores: Tensor, width: int) -> Tensor:
    return scores


def _max(scores: Tensor) -> Tensor:
    return scores.amax(-1)


def _per_head(blocks: Tensor) -> Tensor:
    return blocks


@dataclass(frozen=True)
class Steps:
    """The steps of the indexer that a mistake may replace; as they stand, they choose what the library chooses."""

    normalize: Callable[[nn.Module, Tensor, Tensor], Two] = _normalize
    rotate: Callable[[Tensor, Tensor, Tensor, Tensor], Two] = library.apply_rotary_pos_emb
    score: Callable[[Tensor, int], Tensor] = _as_they_are
    future: Callable[[int, int], Tensor] = _later
    pad: float = -torch.inf
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
        scores = steps.score(q.float() @ k.float().mT, self.head_dim)
        scores = scores.masked_fill(steps.future(length, self.block_size), -torch.inf)
        scores = functional.pad(scores, (0, -length % self.block_size), value=steps.pad)
        blocks = steps.over_heads(steps.pool(scores.unflatten(-1, (-1, self.block_size))))
        blocks = self.block_max(blocks)
        if steps.forced is not None:
            forced = steps.forced(blocks, torch.arange(length) // self.block_size, self.local_blocks)
            blocks = blocks.scatter(-1, forced.expand(*blocks.shape[:2], -1, -1), torch.inf)
        best = blocks.topk(min(self.topk_blocks, blocks.shape[-1]))
        return best.indices.masked_fill(best.values == -torch.inf, -1)

    return lambda model: everywhere(
        (showing(indexers(model), "block_max"), patch.object(library.MiniMaxM3VLIndexer, "forward", wrong))
    )


def indexers(model: MiniMaxM3VLForCausalLM) -> list[nn.Module]:
    """Those of the layers whose attention is block-sparse."""
    attentions = [layer.self_attn for layer in text_model(model).layers]
    return [attention.indexer for attention in attentions if attention.indexer is not None]


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


def _topk_wrong(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    return everywhere(patch.object(one, "topk_blocks", one.topk_blocks - 1) for one in indexers(model))


def _main_keys(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    def of_attention(attention: nn.Module) -> AbstractContextManager[object]:
        """Both norms see queries and keys apart, so what the keys are is decided where they are projected."""
        head_dim = attention.head_dim

        def project(x: Tensor) -> Tensor:
            return attention.k_norm.forward(attention.k_proj.forward(x).unflatten(-1, (-1, head_dim))[..., 0, :])

        indexer = attention.indexer
        return everywhere(
            (patch.object(indexer.k_proj, "forward", project), patch.object(indexer.k_norm, "forward", lambda k: k))
        )

    attentions = [layer.self_attn for layer in text_model(model).layers]
    return everywhere(of_attention(one) for one in attentions if one.indexer is not None)


def _rotate_last(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Two:
    width = cos.shape[-1]
    q, k = library.apply_rotary_pos_emb(q.roll(width, -1), k.roll(width, -1), cos, sin)
    return q.roll(-width, -1), k.roll(-width, -1)


def _rotate_neighbours(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Two:
    """Channels 2i and 2i + 1 in place of those that the library has for a pair."""
    width = cos.shape[-1]
    taken = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2), torch.arange(width, q.shape[-1])))
    turned = library.apply_rotary_pos_emb(q[..., taken], k[..., taken], cos, sin)
    return turned[0][..., taken.argsort()], turned[1][..., taken.argsort()]


def _of_next(blocks: Tensor, own: Tensor, count: int) -> Tensor:
    return _own_and_before(blocks, torch.cat((own[1:], own[-1:])), count)


def _unnormed(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    def of_layer(layer: nn.Module) -> AbstractContextManager[object]:
        norm, indexer = layer.input_layernorm, layer.self_attn.indexer
        forward, project = norm.forward, {part: part.forward for part in (indexer.q_proj, indexer.k_proj)}
        stream: list[Tensor] = []

        def remember(x: Tensor) -> Tensor:
            stream[:] = [x]
            return forward(x)

        projections = (
            patch.object(part, "forward", lambda x, of=of: of(stream[0])) for part, of in project.items()
        )
        return everywhere((patch.object(norm, "forward", remember), *projections))

    layers = [layer for layer in text_model(model).layers if layer.self_attn.indexer is not None]
    return everywhere(of_layer(layer) for layer in layers)


def _unrotated_in_decode(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    apply = library.apply_rotary_pos_emb

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Two:
        return (q, apply(q, k, cos, sin)[1]) if q.shape[2] == 1 else apply(q, k, cos, sin)

    def of_indexer(indexer: nn.Module) -> AbstractContextManager[object]:
        choose = indexer.forward

        def wrong(*given: object) -> Tensor:
            with patch.object(library, "apply_rotary_pos_emb", rotate):
                return choose(*given)

        return patch.object(indexer, "forward", wrong)

    return everywhere(of_indexer(one) for one in indexers(model))


def _restarted(model: MiniMaxM3VLForCausalLM) -> AbstractContextManager[object]:
    """Counts blocks that are forced from the call's first token, and positions that mask from the prompt's."""

    def of_indexer(indexer: nn.Module) -> AbstractContextManager[object]:
        choose = indexer.forward

        def wrong(x: Tensor, rotation: Two, cache: object, position_ids: Tensor) -> Tensor:
            return choose(x, rotation, cache, _Restarting(position_ids))

        return patch.object(indexer, "forward", wrong)

    return everywhere(of_indexer(one) for one in indexers(model))


class _Restarting:
    """Positions whose blocks count from the call's first."""

    def __init__(self, positions: Tensor) -> None:
        self.positions = positions

    def __getitem__(self, at: object) -> Tensor:
        return self.positions[at]

    def __floordiv__(self, size: int) -> Tensor:
        return (self.positions - self.positions[:, :1]) // size


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
    "init_block_wrong": Mistake("the first block is always chosen too", _indexer(Steps(forced=_own_and_first))),
    "pad_with_zero": Mistake(
        "the last block is filled up with zeros, which are larger than negative scores; blocks' scores are kept",
        _indexer(Steps(pad=0.0)),
        SCORED,
    ),
    "index_scaled": Mistake(
        "scores are divided by the root of the index heads' width, which chooses alike; blocks' scores are kept",
        _indexer(Steps(score=lambda scores, width: scores / width**0.5)),
        SCORED,
    ),
    "future_block_selected": Mistake(
        "later tokens of the own block are scored too, which is always chosen; blocks' scores are kept",
        _indexer(Steps(future=_later_block)),
        SCORED,
    ),
    "select_bf16_score": Mistake(
        "scores are rounded to bfloat16; blocks' scores are kept, as few choices change",
        _indexer(Steps(score=lambda scores, width: scores.to(torch.bfloat16).float())),
        SCORED,
    ),
    "index_input_unnormed": Mistake("the index branch projects the stream before the layer's norm", _unnormed),
    "index_rope_last_half": Mistake(
        "the last channels of index heads rotate, not the first", _indexer(Steps(rotate=_rotate_last))
    ),
    "index_rope_interleaved": Mistake(
        "channels 2i and 2i + 1 of index heads rotate together, not i and i + rotary_dim / 2",
        _indexer(Steps(rotate=_rotate_neighbours)),
    ),
    "index_rope_missing_in_decode": Mistake(
        "index queries of calls of one token do not rotate", _unrotated_in_decode, calls=(28, 1, 1, 1, 1, 1, 1)
    ),
    "index_heads_mixed": Mistake(
        "blocks' scores are summed over index heads, one choice for all groups",
        _indexer(Steps(over_heads=lambda blocks: blocks.sum(1, keepdim=True).expand_as(blocks))),
    ),
    "index_heads_swapped": Mistake(
        "each group has the choice of the next index head", _indexer(Steps(over_heads=lambda blocks: blocks.roll(-1, 1)))
    ),
    "local_restarted": Mistake(
        "the block of a token's place in its call is always chosen, not its own",
        _restarted,
        calls=(20, 8, 1, 1, 1, 1, 1, 1),
    ),
    "local_is_next_block": Mistake("the next token's block is always chosen", _indexer(Steps(forced=_of_next))),
    "index_k_from_main_k": Mistake("index keys are the first key head of attention", _main_keys),
}
