"""What makes an M2 case worth having."""

from properties import LEAST, Pass, attention_peak, parameters, router_properties

__all__ = ["LEAST", "properties"]


def properties(run: Pass) -> dict[str, int | float]:
    """Facts about the activations of the prompt and the decode, over all layers; smallest_margin is of the logits."""
    biases = {index: layer.mlp.e_score_correction_bias for index, layer in enumerate(run.model.model.layers)}
    return {
        "parameters": parameters(run.model),
        **router_properties(run, biases),
        "attention_peak": attention_peak(run),
        "smallest_margin": min(run.margins),
    }
