"""The golden cases of MiniMax-M2: what each is for, and the sizes, seed and storage that make it."""

from dataclasses import dataclass

import torch
from cases import Case, Layout


@dataclass(frozen=True)
class M2Sizes:
    """The numbers of the hub's config.json that differ from case to case, by their names there."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary_dim: int
    num_local_experts: int
    num_experts_per_tok: int
    rope_theta: float = 5_000_000


CASES = (
    Case(
        name="m2-gqa3-f32",
        description="The plain case: three query heads share a key head, half of each head rotates, three of eight "
        "experts. Its decode keeps every activation of every step.",
        sizes=M2Sizes(
            vocab_size=320,
            hidden_size=96,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=16,
            rotary_dim=8,
            num_local_experts=8,
            num_experts_per_tok=3,
        ),
        seed=8,
        prompt_length=40,
        decode_sites=True,
    ),
    Case(
        name="m2-mha-top1-f32",
        description="Odd sizes, a third of each head rotates, every query head has its own key head, one expert a "
        "token (its weight is exactly 1), another theta. Config and tensors as save_pretrained writes them: "
        "rope_parameters, and no field that only the hub's config has.",
        sizes=M2Sizes(
            vocab_size=211,
            hidden_size=52,
            intermediate_size=20,
            num_hidden_layers=3,
            num_attention_heads=5,
            num_key_value_heads=5,
            head_dim=12,
            rotary_dim=4,
            num_local_experts=5,
            num_experts_per_tok=1,
            rope_theta=10_000,
        ),
        seed=147,
        prompt_length=17,
        decode_length=32,
        layout=Layout.SAVE_PRETRAINED,
    ),
    Case(
        name="m2-mqa-top8-long-f32",
        description="More keys than one 128-wide attention tile, one key head for eight query heads, three quarters of "
        "each head rotate, eight of sixteen experts. Tensors under the library's own fused names.",
        sizes=M2Sizes(
            vocab_size=257,
            hidden_size=72,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=8,
            num_key_value_heads=1,
            head_dim=32,
            rotary_dim=24,
            num_local_experts=16,
            num_experts_per_tok=8,
        ),
        seed=39,
        prompt_length=150,
        layout=Layout.FUSED,
    ),
    Case(
        name="m2-sharded-bf16",
        description="bfloat16 weights and activations with the router in float32, as released; four query heads share "
        "a key head; the checkpoint is in several files. The case is about the rounding points of the eager path.",
        sizes=M2Sizes(
            vocab_size=500,
            hidden_size=128,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=16,
            rotary_dim=8,
            num_local_experts=6,
            num_experts_per_tok=2,
        ),
        seed=275,
        prompt_length=33,
        layout=Layout.SHARDED,
        stored=torch.bfloat16,
        computed=torch.bfloat16,
    ),
    Case(
        name="m2-f16-weights-f32",
        description="float16 weights computed in float32; the whole head rotates, two query heads share a key head, "
        "the projections are narrower than the hidden size, and of twelve experts number 10 sorts before 2 as text.",
        sizes=M2Sizes(
            vocab_size=300,
            hidden_size=112,
            intermediate_size=40,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            rotary_dim=16,
            num_local_experts=12,
            num_experts_per_tok=2,
        ),
        seed=16,
        prompt_length=36,
        stored=torch.float16,
    ),
)
