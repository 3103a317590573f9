"""What makes a vision case worth having."""

import torch
from properties import LEAST as COMMON
from properties import Pass, attention_peak, parameters, router_properties
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLForCausalLM

LEAST = COMMON | {"features_size": 0.3, "gelu_kinds_differ": 1e-4}
"""What a case must have at least."""


def properties(run: Pass) -> dict[str, int | float]:
    """Facts about the activations of the prompt and the decode.

    - smallest_margin: least lead of a greedy token's logit.
    - features_size: root mean square of what is put in the places of images and videos.
    - gelu_kinds_differ: the largest distance of the exact GELU from its approximation, over a layer of the tower.
    """
    text = _text(run)
    layers = enumerate(text.model.model.layers)
    biases = {index: layer.mlp.gate.e_score_correction_bias for index, layer in layers if hasattr(layer.mlp, "gate")}
    inner = run.prefill["model.vision_tower.layers.0.mlp.fc1"].float()
    exact, other = (torch.nn.functional.gelu(inner, approximate=kind) for kind in ("none", "tanh"))
    return {
        "parameters": parameters(run.model),
        **router_properties(text, biases),
        "attention_peak": attention_peak(text),
        "smallest_margin": min(run.margins),
        "features_size": float(run.prefill["model.multi_modal_projector"].float().pow(2).mean().sqrt()),
        "gelu_kinds_differ": float((exact - other).abs().max()),
    }


def _text(run: Pass) -> Pass:
    """The text model's part, by the names that it has alone."""
    text = MiniMaxM3VLForCausalLM(run.model.config.text_config)
    text.model, text.lm_head = run.model.model.language_model, run.model.lm_head
    own = ({name.replace("model.language_model.", "model."): x for name, x in of.items()} for of in (run.prefill, run.decode))
    return Pass(text, *own, run.tokens, run.margins)
