"""Measures what makes a case worth having; a case whose properties are poor would let mistakes pass."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

LEAST = {
    "bias_changes_choice": 0.2,
    "smallest_choice_gap": 1e-4,
    "least_used_expert": 0.01,
    "attention_peak": 0.2,
    "smallest_margin": 0.05,
}
"""What a case of either family must have at least: below, another seed or other gains are needed."""


class Pass(NamedTuple):
    """What was computed for a case: the prompt, the steps of the decode, and by how much each greedy token led."""

    model: PreTrainedModel
    prefill: Mapping[str, Tensor]
    decode: Mapping[str, Tensor]
    tokens: list[int]
    """The prompt and the greedy tokens that were fed."""
    margins: list[float]


def parameters(model: PreTrainedModel) -> int:
    """Of the whole model, the routers' correction biases included."""
    return sum(tensor.numel() for tensor in model.state_dict().values())


def with_steps(run: Pass, site: str) -> Tensor:
    """What a site was for the prompt, then for each step, in one."""
    return torch.cat([run.prefill[site], *(values for name, values in run.decode.items() if name.endswith(f".{site}"))])


def router_properties(run: Pass, biases: Mapping[int, Tensor]) -> dict[str, float]:
    """How experts are chosen, over the prompt and the decode of the layers that have `biases`.

    - bias_changes_choice: share of tokens whose experts would be others without the correction bias.
    - smallest_choice_gap: least distance between the last chosen and the first rejected expert's biased score.
    - least_used_expert: share of a layer's tokens that choose the expert it chooses least; 1 is all.
    """
    k, experts = run.model.config.num_experts_per_tok, run.model.config.num_local_experts
    changed, gaps, used = [], [], []
    for layer, bias in biases.items():
        scores = with_steps(run, f"model.layers.{layer}.mlp.gate").sigmoid()
        with_bias = (scores + bias).topk(k + 1)
        chosen = functional.one_hot(with_bias.indices[:, :k], experts).sum(1)
        without_bias = functional.one_hot(scores.topk(k).indices, experts).sum(1)
        changed.append((chosen != without_bias).any(1))
        gaps.append(with_bias.values[:, k - 1] - with_bias.values[:, k])
        used.append(chosen.float().mean(0))
    return {
        "bias_changes_choice": float(torch.cat(changed).float().mean()),
        "smallest_choice_gap": float(torch.cat(gaps).min()),
        "least_used_expert": float(torch.cat(used).min()),
    }


def attention_peak(run: Pass) -> float:
    """Mean of the largest probability of a row, over the prompt's rows of at least eight keys."""
    layers = range(run.model.config.num_hidden_layers)
    peaks = [run.prefill[f"model.layers.{layer}.self_attn.1"][0, :, 7:].float().amax(-1) for layer in layers]
    return float(torch.stack(peaks).mean())


def require_useful(case: str, found: Mapping[str, int | float], least: Mapping[str, float]) -> None:
    """Refuses a case in which a mistake could hide, or a legal rounding change a token."""
    poor = [
        f"{name} is {found[name]:.2g}, expected at least {bound}"
        for name, bound in least.items()
        if name in found and not found[name] >= bound
    ]
    if poor:
        raise RuntimeError(f"{case}: {'; '.join(poor)}; try another seed")
