"""Stand-ins for what vLLM computes of M3 on a GPU alone; see `vllm_on_cpu.py`."""

from typing import Any

import torch
import vllm._custom_ops as custom_ops
import vllm.models.minimax_m3.common.indexer as indexer
import vllm.models.minimax_m3.common.vision_tower as vision_tower
import vllm.models.minimax_m3.nvidia.model as m3
from torch import Tensor
from torch.nn import functional
from vllm.model_executor.layers.rotary_embedding.mrope_vit_setup import VitMropeSetup
from vllm_attention import attend, within_requests

LAYER: dict[str, Tensor] = {}
"""What the fused operator made for the attention that follows it in the same layer."""


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Gemma's RMSNorm in float32."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1 + weight.float())


def rotated(x: Tensor, cos: Tensor, sin: Tensor, channels: int) -> Tensor:
    """The first `channels` of each head rotated, halves together."""
    half = channels // 2
    first, second, rest = x[..., :half], x[..., half:channels], x[..., channels:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, rest], -1)


def norm(self: Any, x: Tensor, residual: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """flashinfer's: the sum is normed before it is rounded, and both are written in place."""
    if residual is None:
        return normed(x.float(), self.weight, self.variance_epsilon).to(x.dtype)
    total = x.float() + residual.float()
    residual.copy_(total)
    x.copy_(normed(total, self.weight, self.variance_epsilon))
    return x, residual


def norm_and_rotate(
    qkv: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    table: Tensor,
    positions: Tensor,
    heads: int,
    key_heads: int,
    rotary: int,
    eps: float,
    index_q_weight: Tensor | None = None,
    index_k_weight: Tensor | None = None,
    index_heads: int = 0,
    slots: Any = None,
    index_slots: Any = None,
    cache: Any = None,
    index_cache: Any = None,
    page: int = 0,
    q_out: Tensor | None = None,
    index_q_out: Tensor | None = None,
    *_: Any,
    **__: Any,
) -> None:
    """Norms and rotates queries and keys, the index branch's too, in place."""
    width, rows = q_weight.shape[0], len(qkv)
    cos, sin = (x[:, None] for x in table[positions].float().chunk(2, -1))

    def both(x: Tensor, weight: Tensor) -> Tensor:
        by_head = x.float().reshape(rows, -1, weight.shape[0])
        return rotated(normed(by_head, weight, eps), cos, sin, rotary).reshape(rows, -1).to(qkv.dtype)

    sizes = [heads * width, key_heads * width, key_heads * width]
    if index_heads:
        sizes += [index_heads * index_q_weight.shape[0], index_k_weight.shape[0]]
    q, k, v, *index = qkv.split(sizes, -1)
    (q if q_out is None else q_out).copy_(both(q, q_weight))
    k.copy_(both(k, k_weight))
    if index_heads:
        index_q_out.copy_(both(index[0], index_q_weight))
        index[1].copy_(both(index[1], index_k_weight))
        LAYER.update(k=k.clone(), v=v.clone(), index_k=index[1].clone())


def choose(self: Any, index_query: Tensor) -> tuple[None, Tensor]:
    """The blocks that each row and group attends to, −1 where there are fewer."""
    block, top, rows = self.block_size, self.topk_blocks, len(index_query)
    queries = index_query.float().view(rows, self.num_index_heads, -1)
    scores = torch.einsum("thd,sd->hts", queries, LAYER["index_k"].float()) * self.scale
    scores = scores.masked_fill(~within_requests(rows), -torch.inf)
    blocks = -(-rows // block)
    scores = functional.pad(scores, (0, blocks * block - rows), value=-torch.inf)
    scores = scores.view(-1, rows, blocks, block).amax(-1)
    row = torch.arange(rows)
    for back in range(self.local_blocks):
        local = row // block - back
        scores[:, row[local >= 0], local[local >= 0]] = torch.inf
    best, chosen = scores.topk(min(top, blocks), -1)
    LAYER["seen"] = torch.zeros(scores.shape, dtype=torch.bool).scatter_(-1, chosen, best > -torch.inf)
    return None, torch.where(best > -torch.inf, chosen, -1).to(torch.int32)


def attend_to_chosen(self: Any, query: Tensor, query_fp8: Any, index_query: Tensor, output: Tensor) -> Tensor:
    """Attention to the chosen blocks."""
    self.indexer(index_query)
    rows = len(query)
    seen = LAYER["seen"].repeat_interleave(self.indexer.impl.block_size, -1)[..., :rows] & within_requests(rows)
    heads = (self.num_heads, self.num_kv_heads)
    output.copy_(attend(query, LAYER["k"], LAYER["v"], heads, self.scaling, seen))
    return output


class AnySlot(dict):
    """A mapping of layers to slots of a cache that is not there."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: object) -> None:
        return None


class Context:
    """A forward context with those slots."""

    slot_mapping = AnySlot()


def angles(self: Any, it: Tensor, ih: Tensor, iw: Tensor, grid: list[list[int]], merge: int) -> tuple[Tensor, Tensor]:
    """The tower's rotation table, by time, height and width."""
    places = []
    for frames, height, width in grid:
        rows = torch.arange(height)[:, None].expand(height, width)
        columns = torch.arange(width)[None].expand(height, width)

        def merged(x: Tensor, size: tuple[int, int] = (height, width)) -> Tensor:
            by_square = x.reshape(size[0] // merge, merge, size[1] // merge, merge)
            return by_square.permute(0, 2, 1, 3).flatten()

        times = torch.arange(frames).repeat_interleave(height * width)
        places.append(torch.stack([times, merged(rows).repeat(frames), merged(columns).repeat(frames)], -1))
    at = torch.cat(places).float()
    all_angles = torch.cat([at[:, :1] * it, at[:, 1:2] * ih, at[:, 2:] * iw], -1)[None].expand(3, -1, -1)
    return all_angles.cos(), all_angles.sin()


def rotate_patches(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, section: Any, width: int, rotary: int, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    """The tower's queries and keys rotated in place."""
    for x in (q, k):
        by_head = x.view(x.shape[0], -1, width)
        by_head.copy_(rotated(by_head.float().clone(), cos[0][:, None], sin[0][:, None], rotary))
    return q, k


def stand_in() -> None:
    """Puts all of these in their places."""
    m3.MiniMAXGemmaRMSNorm.forward = norm
    custom_ops.fused_minimax_m3_qknorm_rope_kv_insert = norm_and_rotate
    m3.get_forward_context = lambda: Context
    indexer.MiniMaxM3IndexerTritonImpl.forward = choose
    m3.MiniMaxM3SparseAttention._run_attention = attend_to_chosen
    VitMropeSetup.forward = angles
    vision_tower.triton_mrope = rotate_patches


def prepare(model: torch.nn.Module) -> None:
    """Gives attention an empty cache."""
    for module in model.modules():
        if isinstance(module, m3.MiniMaxM3SparseAttention):
            module.kv_cache = torch.zeros(1, 1, 8)
