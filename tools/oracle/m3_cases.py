"""The golden cases of MiniMax-M3's text model: what each is for, and the sizes, seed and storage that make it.

Blocks are of 4 to 16 tokens, so that a short prompt has more of them than a query may choose. All cases have gates and
ups beyond the limit of SwiGLU-OAI on both sides, and correction biases that change the choice of experts.
"""

from dataclasses import dataclass, replace

import torch
from cases import Case, Layout, Library


@dataclass(frozen=True)
class M3Sizes:
    """The numbers of the hub's config.json that differ from case to case, by their names there.

    There are as many index heads as key heads, and as many layers as entries in the two lists.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    dense_intermediate_size: int
    shared_intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary_dim: int
    num_local_experts: int
    num_experts_per_tok: int
    moe_layer_freq: tuple[int, ...]
    sparse_attention_freq: tuple[int, ...]
    sparse_index_dim: int
    sparse_block_size: int
    sparse_topk_blocks: int
    sparse_local_block: int = 1
    rope_theta: float = 5_000_000
    routed_scaling_factor: float = 2.0
    swiglu_alpha: float = 1.702
    swiglu_limit: float = 7.0

    @property
    def num_hidden_layers(self) -> int:
        """L."""
        return len(self.moe_layer_freq)


PLAIN = Case(
    name="m3-gqa4-f32",
    description="The plain case: two dense layers with full attention, then two of experts with block-sparse "
    "attention; four query heads share a key head, two index heads choose three of up to fifteen blocks of four "
    "tokens. Its decode keeps every activation of every step.",
    sizes=M3Sizes(
        vocab_size=192,
        hidden_size=48,
        intermediate_size=20,
        dense_intermediate_size=36,
        shared_intermediate_size=28,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=8,
        rotary_dim=4,
        num_local_experts=8,
        num_experts_per_tok=2,
        moe_layer_freq=(0, 0, 1, 1),
        sparse_attention_freq=(0, 0, 1, 1),
        sparse_index_dim=12,
        sparse_block_size=4,
        sparse_topk_blocks=3,
    ),
    seed=44,
    prompt_length=34,
    decode_sites=True,
)

CASES = (
    PLAIN,
    replace(
        PLAIN,
        name="m3-gqa4-head-max-f32",
        description="The checkpoint and the prompt of m3-gqa4-f32, computed by the library's older reading: blocks are "
        "scored by the maximum over the index heads, and all groups attend to the same ones.",
        decode_sites=False,
        library=Library.V5_12,
    ),
    Case(
        name="m3-local2-long-f32",
        description="Two local blocks, three groups of two heads, blocks of six tokens, index heads wider than "
        "attention's; a layer is sparse in its attention alone; another scale of the experts' sum; forty-eight tokens "
        "are decoded.",
        sizes=M3Sizes(
            vocab_size=203,
            hidden_size=40,
            intermediate_size=16,
            dense_intermediate_size=36,
            shared_intermediate_size=20,
            num_attention_heads=6,
            num_key_value_heads=3,
            head_dim=12,
            rotary_dim=8,
            num_local_experts=7,
            num_experts_per_tok=3,
            moe_layer_freq=(0, 0, 1),
            sparse_attention_freq=(0, 1, 1),
            sparse_index_dim=20,
            sparse_block_size=6,
            sparse_topk_blocks=4,
            sparse_local_block=2,
            routed_scaling_factor=2.5,
        ),
        seed=112,
        prompt_length=74,
        decode_length=48,
    ),
    Case(
        name="m3-few-blocks-f16-weights-f32",
        description="float16 weights computed in float32. No token of the prompt sees more blocks than it may choose, "
        "so that its attention is causal attention; the decode crosses into the fourth and the fifth block. One index "
        "head, the whole head rotates, experts in a layer with full attention, another limit and alpha of SwiGLU-OAI.",
        sizes=M3Sizes(
            vocab_size=300,
            hidden_size=56,
            intermediate_size=28,
            dense_intermediate_size=44,
            shared_intermediate_size=24,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=16,
            rotary_dim=16,
            num_local_experts=11,
            num_experts_per_tok=3,
            moe_layer_freq=(0, 1, 1),
            sparse_attention_freq=(0, 0, 1),
            sparse_index_dim=24,
            sparse_block_size=16,
            sparse_topk_blocks=3,
            rope_theta=10_000,
            swiglu_alpha=1.25,
            swiglu_limit=5.0,
        ),
        seed=97,
        prompt_length=45,
        stored=torch.float16,
    ),
    Case(
        name="m3-sharded-bf16",
        description="bfloat16 weights and activations with the router in float32, as released; two query heads share a "
        "key head; the checkpoint is in several files. The case is about the rounding points of the eager path.",
        sizes=M3Sizes(
            vocab_size=500,
            hidden_size=96,
            intermediate_size=32,
            dense_intermediate_size=64,
            shared_intermediate_size=48,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            rotary_dim=16,
            num_local_experts=6,
            num_experts_per_tok=2,
            moe_layer_freq=(0, 1, 1),
            sparse_attention_freq=(0, 1, 1),
            sparse_index_dim=16,
            sparse_block_size=8,
            sparse_topk_blocks=2,
        ),
        seed=160,
        prompt_length=29,
        layout=Layout.SHARDED,
        stored=torch.bfloat16,
        computed=torch.bfloat16,
    ),
    Case(
        name="m3-local2-head-max-f32",
        description="The older reading again: four groups, two local blocks, five of blocks of five tokens.",
        sizes=M3Sizes(
            vocab_size=220,
            hidden_size=48,
            intermediate_size=20,
            dense_intermediate_size=40,
            shared_intermediate_size=28,
            num_attention_heads=12,
            num_key_value_heads=4,
            head_dim=8,
            rotary_dim=4,
            num_local_experts=9,
            num_experts_per_tok=4,
            moe_layer_freq=(0, 1, 1),
            sparse_attention_freq=(0, 1, 1),
            sparse_index_dim=12,
            sparse_block_size=5,
            sparse_topk_blocks=5,
            sparse_local_block=2,
        ),
        seed=15,
        prompt_length=43,
        library=Library.V5_12,
    ),
)
