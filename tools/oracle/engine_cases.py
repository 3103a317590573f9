"""The checkpoints that other engines compute dumps from: of sizes that all of them take.

vLLM takes no shared expert of another width than the routed ones, and heads of 64 channels at least in block-sparse
attention; SGLang blocks of 16 tokens at least; mlx-vlm a projector as wide as the text model. Weights are stored in
bfloat16, as released: an engine in float32 computes from the same values.
"""

import torch
from cases import Case
from m2_cases import M2Sizes
from m3_cases import M3Sizes
from vision_cases import TowerSizes, VisionCase, VisionSizes

M3 = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 32,
    "dense_intermediate_size": 64,
    "shared_intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rotary_dim": 32,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "moe_layer_freq": (0, 1),
    "sparse_attention_freq": (0, 1),
    "sparse_index_dim": 64,
    "sparse_block_size": 16,
    "sparse_topk_blocks": 2,
}
"""A dense layer with full attention, then experts with block-sparse attention: of three blocks a query sees two."""

CASES = (
    Case(
        name="m2",
        description="Three of eight experts, four query heads share a key head.",
        sizes=M2Sizes(
            vocab_size=128,
            hidden_size=64,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=16,
            rotary_dim=8,
            num_local_experts=8,
            num_experts_per_tok=3,
        ),
        seed=11,
        prompt_length=20,
        stored=torch.bfloat16,
    ),
    Case(
        name="m3",
        description="A dense layer, then experts with block-sparse attention: two of up to three blocks.",
        sizes=M3Sizes(**M3),
        seed=16,
        prompt_length=36,
        stored=torch.bfloat16,
    ),
    VisionCase(
        name="vision",
        description="The text model of m3 with a vision tower, and an image in the prompt.",
        sizes=VisionSizes(
            **M3,
            tower=TowerSizes(
                hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=2, patch_size=4
            ),
            projector_hidden_size=64,
        ),
        seed=13,
        prompt_length=34,
        stored=torch.bfloat16,
        images=((1, 4, 4),),
    ),
)
"""Each has the name of its family, which its folder has, too."""
