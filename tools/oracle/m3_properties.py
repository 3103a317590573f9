"""What makes an M3 case worth having."""

from collections.abc import Mapping

import torch
from capturing import Capture
from properties import LEAST as COMMON
from properties import Pass, attention_peak, parameters, router_properties
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import apply_rotary_pos_emb

LEAST = COMMON | {
    "smallest_block_gap": 1e-3,
    "blocks_left_out": 0.05,
    "local_changes_choice": 0.02,
    "head_max_changes_choice": 0.2,
    "gates_above_limit": 0.02,
    "gates_below_limit": 0.02,
    "ups_beyond_limit": 0.04,
}
"""What a case must have at least; what is said of index heads, only where there are several."""


def properties(run: Pass) -> dict[str, int | float]:
    """Facts about the activations of the prompt and the decode, over all layers that have what they are about.

    - smallest_margin: least lead of a greedy token's logit.
    - gates_above_limit, gates_below_limit, ups_beyond_limit: share of the prompt's gates that SwiGLU-OAI clamps, of
      those that only a symmetric clamp would, and of its ups; of dense layers and shared experts.
    """
    layers = enumerate(run.model.model.layers)
    biases = {index: layer.mlp.gate.e_score_correction_bias for index, layer in layers if hasattr(layer.mlp, "gate")}
    return {
        "parameters": parameters(run.model),
        **router_properties(run, biases),
        "attention_peak": attention_peak(run),
        "smallest_margin": min(run.margins),
        **_block_properties(run),
        **_activation_properties(run.prefill, run.model.config.swiglu_limit),
    }


def _activation_properties(prefill: Mapping[str, Tensor], limit: float) -> dict[str, float]:
    fused = [values for name, values in prefill.items() if name.endswith(".gate_up_proj")]
    halves = [values.flatten(0, -2).chunk(2, dim=-1) for values in fused]
    gates, ups = (torch.cat([half.flatten() for half in of_all]) for of_all in zip(*halves, strict=True))
    return {
        "gates_above_limit": float((gates > limit).float().mean()),
        "gates_below_limit": float((gates < -limit).float().mean()),
        "ups_beyond_limit": float((ups.abs() > limit).float().mean()),
    }


def _block_properties(run: Pass) -> dict[str, float]:
    """How blocks are chosen, over all tokens and groups; the steps of the decode must have chosen the same.

    - smallest_block_gap: least distance between the last chosen and the first rejected block's score.
    - blocks_left_out: share of choices that leave out a visible block.
    - local_changes_choice: share that would be another if no local block were forced.
    - head_max_changes_choice: share in which the maximum over index heads chooses otherwise than one head alone.
    """
    config = run.model.config
    k, size = config.index_topk_blocks, config.index_block_size
    of_all_heads = _of_all_heads(run)
    gaps, left_out, unforced, by_head = [], [], [], []
    with Capture(run.model) as whole:
        run.model(torch.tensor([run.tokens]))
    for site in [name for name in whole.tensors if name.endswith(".indexer")]:
        plain = _block_scores(run.model, whole.tensors, site)
        own = torch.arange(len(run.tokens)) // size
        local = (own[:, None] - torch.arange(config.index_local_blocks)).clamp(min=0)
        maximum = plain.amax(0, keepdim=True).expand_as(plain)
        scores = (maximum if of_all_heads else plain).scatter(-1, local.expand(len(plain), -1, -1), torch.inf)
        other = (plain if of_all_heads else maximum).scatter(-1, local.expand(len(plain), -1, -1), torch.inf)
        chosen = _chosen(scores, k)
        _require_chosen(run, site, chosen)
        best = scores.topk(min(k + 1, scores.shape[-1])).values
        rivals = best.isfinite()[..., -2:].all(-1) & (best.shape[-1] == k + 1)
        gaps.append((best[..., -2] - best[..., -1])[rivals])
        left_out.append((own + 1 > k).expand(len(plain), -1))
        unforced.append((chosen != _chosen(maximum if of_all_heads else plain, k)).any(-1))
        by_head.append((chosen != _chosen(other, k)).any(-1))
    shares = {"blocks_left_out": left_out, "local_changes_choice": unforced}
    if config.index_n_heads > 1:
        shares["head_max_changes_choice"] = by_head
    return {
        "smallest_block_gap": float(torch.cat([gap.flatten() for gap in gaps]).min()),
        **{name: float(torch.cat(changed).float().mean()) for name, changed in shares.items()},
    }


def _block_scores(model: PreTrainedModel, whole: Mapping[str, Tensor], site: str) -> Tensor:
    """The largest causal score of each block, [heads, tokens, blocks], from the outputs of the indexer's norms."""
    q, k = (whole[f"{site}.{name}"].transpose(1, 2) for name in ("q_norm", "k_norm"))
    q, k = apply_rotary_pos_emb(q, k, whole["model.rotary_emb"], whole["model.rotary_emb.1"])
    scores = (q[0].float() @ k[0].float().mT).masked_fill(torch.ones(q.shape[2], q.shape[2]).triu(1).bool(), -torch.inf)
    size = model.config.index_block_size
    return functional.pad(scores, (0, -scores.shape[-1] % size), value=-torch.inf).unflatten(-1, (-1, size)).amax(-1)


def _chosen(scores: Tensor, k: int) -> Tensor:
    """Which blocks are among the k best that are visible, as a mask."""
    best = scores.topk(min(k, scores.shape[-1]))
    mask = torch.zeros_like(scores, dtype=torch.bool)
    return mask.scatter(-1, best.indices, best.values > -torch.inf)


def _of_all_heads(run: Pass) -> bool:
    """Whether the library chooses once for all index heads: it then returns no axis of heads."""
    return all(values.dim() == 3 for name, values in run.prefill.items() if name.endswith(".indexer"))


def _require_chosen(run: Pass, site: str, expected: Tensor) -> None:
    """Refuses a case whose prompt or decode chose other blocks than one pass over all its tokens."""
    steps = [values for name, values in run.decode.items() if name.endswith(f".{site}")]
    start = 0
    for values in [run.prefill[site], *steps]:
        found = values[0] if values.dim() == 4 else values.expand(len(expected), -1, -1)
        mask = torch.zeros(*found.shape[:2], expected.shape[-1] + 1, dtype=torch.bool)
        mask = mask.scatter(-1, found.masked_fill(found < 0, expected.shape[-1]), True)[..., :-1]
        rows = slice(start, start := start + found.shape[1])
        if not torch.equal(mask, expected[:, rows]):
            raise RuntimeError(f"{site}: tokens {rows.start}.. choose otherwise in one pass; try another seed")
