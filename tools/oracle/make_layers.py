"""Makes what layers of transformers' `minimax` compute, the family before M2: document 000's hybrid attention.

    python tools/oracle/make_layers.py --out fixtures/golden-layers

Needs exactly the versions in requirements.txt. The layers are `MiniMaxDecoderLayer`s: one of lightning attention, one of
softmax attention, each with experts behind it, and every factor of a residual another one. The folder has

    KIND.safetensors    x and y [tokens, channels] of a layer, and its weights by the module's names
    index.json          the sizes of both, and of each layer the factors of its residuals
    provenance.json     command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
from pathlib import Path

import torch
from filled import filled
from provenance import SCHEMA, record, write_json
from safetensors.torch import save_file
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import MiniMaxDecoderLayer, MiniMaxRotaryEmbedding

SEED = 97
TOKENS = 21
LAYERS = {"linear_attention": "lightning", "full_attention": "softmax"}
"""The library's names of the two kinds, one a layer of the model, and the document's."""

SIZES = {
    "hidden_size": 20,
    "intermediate_size": 12,
    "num_hidden_layers": len(LAYERS),
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "block_size": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
FACTORS = {
    "linear_attn_alpha_factor": 3.5,
    "linear_attn_beta_factor": 0.75,
    "full_attn_alpha_factor": 2.5,
    "full_attn_beta_factor": 1.25,
    "mlp_alpha_factor": 1.75,
    "mlp_beta_factor": 0.875,
}
"""Of the normed stream and of what a block makes of it: numbers of which f32 has all digits."""


def main() -> None:
    """Makes the folder."""
    filled("Makes what layers of the family before M2 compute.", make)


@torch.no_grad()
def make(folder: Path) -> None:
    """Writes all files into `folder`, which is empty."""
    torch.manual_seed(SEED)
    rope = {"rope_type": "default", "rope_theta": SIZES["rope_theta"]}
    sizes = {name: size for name, size in SIZES.items() if name != "rope_theta"}
    config = MiniMaxConfig(**sizes, **FACTORS, layer_types=list(LAYERS), rope_parameters=rope)
    config._attn_implementation = config._experts_implementation = "eager"
    positions = torch.arange(TOKENS)[None]
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    masks = {
        "linear_attention": None,
        "full_attention": torch.zeros(1, 1, TOKENS, TOKENS).masked_fill(later, float("-inf")),
    }
    for number, (kind, name) in enumerate(LAYERS.items()):
        layer = MiniMaxDecoderLayer(config, number).eval()
        for weight_name, weight in layer.named_parameters():
            around = 1.0 if "norm" in weight_name else 0.0
            deviation = 0.3 if around else weight.shape[-1] ** -0.5
            torch.nn.init.normal_(weight, around, deviation)
        x = torch.randn(1, TOKENS, SIZES["hidden_size"])
        table = MiniMaxRotaryEmbedding(config)(x, positions)
        y = layer(x, position_embeddings=table, attention_mask=masks[kind], position_ids=positions)
        weights = {name: weight.detach().clone() for name, weight in layer.named_parameters()}
        save_file({"x": x[0].clone(), "y": y[0].clone(), **weights}, folder / f"{name}.safetensors")
    write_json(folder / "index.json", {"schema": SCHEMA, "seed": SEED, "sizes": SIZES, "factors": FACTORS})
    record(folder, "make_layers.py --out fixtures/golden-layers")


if __name__ == "__main__":
    main()
