"""Attention of what is in a call, in plain torch: what stands in for vLLM's kernels."""

import torch
from torch import Tensor

REQUESTS: list[int] = []
"""Tokens of each request that the rows of the present call are of, one behind the other."""


def within_requests(count: int) -> Tensor:
    """Which rows each row may attend to: those of its own request, up to itself."""
    lengths = REQUESTS or [count]
    own = [torch.ones(length, length, dtype=torch.bool).tril() for length in lengths]
    return torch.block_diag(*own).bool()


def attend(q: Tensor, k: Tensor, v: Tensor, heads: tuple[int, int], scale: float, seen: Tensor) -> Tensor:
    """Softmax attention in float32; `seen` is [1 or key heads, rows, keys]."""
    (own, shared), rows = heads, q.shape[0]
    queries = q.reshape(rows, own, -1).transpose(0, 1).float()
    keys, values = (x.reshape(rows, shared, -1).transpose(0, 1).float() for x in (k, v))
    keys, values = (x.repeat_interleave(own // shared, 0) for x in (keys, values))
    mask = seen.repeat_interleave(own // seen.shape[0], 0)
    weights = (queries @ keys.mT * scale).masked_fill(~mask, -torch.inf).softmax(-1)
    return (weights @ values).transpose(0, 1).reshape(rows, -1).to(q.dtype)
