"""Measures what makes an M2 case worth having; a case whose properties are poor would let mistakes pass."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional
from transformers import MiniMaxM2ForCausalLM

LEAST = {
    "bias_changes_choice": 0.2,
    "smallest_choice_gap": 1e-4,
    "least_used_expert": 0.01,
    "attention_peak": 0.2,
    "smallest_margin": 0.05,
}
"""What a case must have at least: below, another seed or other gains are needed."""


def properties(
    model: MiniMaxM2ForCausalLM, prefill: Mapping[str, Tensor], decode: Mapping[str, Tensor], margins: list[float]
) -> dict[str, int | float]:
    """Facts about the activations of the prompt and the decode, over all layers.

    - parameters: of the whole model, the router's correction biases included.
    - bias_changes_choice: share of tokens whose experts would be others without the correction bias.
    - smallest_choice_gap: least distance between the last chosen and the first rejected expert's biased score.
    - least_used_expert: share of a layer's tokens that choose the expert it chooses least; 1 is all.
    - attention_peak: mean of the largest probability of a row, over the prompt's rows of at least eight keys.
    - smallest_margin: least lead of a greedy token's logit.
    """
    k, experts = model.config.num_experts_per_tok, model.config.num_local_experts
    changed, gaps, used, peaks = [], [], [], []
    for index, layer in enumerate(model.model.layers):
        path = f"model.layers.{index}"
        gate = f"{path}.mlp.gate"
        logits = torch.cat([prefill[gate], *(values for name, values in decode.items() if name.endswith(f".{gate}"))])
        scores = logits.sigmoid()
        with_bias = (scores + layer.mlp.e_score_correction_bias).topk(k + 1)
        chosen = functional.one_hot(with_bias.indices[:, :k], experts).sum(1)
        without_bias = functional.one_hot(scores.topk(k).indices, experts).sum(1)
        changed.append((chosen != without_bias).any(1))
        gaps.append(with_bias.values[:, k - 1] - with_bias.values[:, k])
        used.append(chosen.float().mean(0))
        peaks.append(prefill[f"{path}.self_attn.1"][0, :, 7:].float().amax(-1))
    return {
        "parameters": sum(tensor.numel() for tensor in model.state_dict().values()),
        "bias_changes_choice": float(torch.cat(changed).float().mean()),
        "smallest_choice_gap": float(torch.cat(gaps).min()),
        "least_used_expert": float(torch.cat(used).min()),
        "attention_peak": float(torch.stack(peaks).mean()),
        "smallest_margin": min(margins),
    }


def require_useful(case: str, found: Mapping[str, int | float]) -> None:
    """Refuses a case in which a mistake could hide, or a legal rounding change a token."""
    poor = [
        f"{name} is {found[name]:.2g}, expected at least {least}"
        for name, least in LEAST.items()
        if found[name] < least
    ]
    if poor:
        raise RuntimeError(f"{case}: {'; '.join(poor)}; try another seed")
