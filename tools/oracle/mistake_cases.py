"""Cases in which mistakes show that no golden case can show: checkpoint and prompt only, as small as they can be."""

from dataclasses import dataclass

from cases import Case
from m2_cases import M2Sizes
from m3_cases import M3Sizes


@dataclass(frozen=True)
class SmallEpsilon(M2Sizes):
    """With an epsilon that is nothing beside the small key projections of cases, as 1e-6 is beside released ones."""

    rms_norm_eps: float = 1e-12


CASES = (
    Case(
        name="m2-square-f32",
        description="Experts as wide as the hidden state, so that a transposed weight fits; a prompt beyond position "
        "256, from where bfloat16 does not hold each; an epsilon so small that a wrong divisor in a norm is a factor.",
        sizes=SmallEpsilon(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            rotary_dim=4,
            num_local_experts=4,
            num_experts_per_tok=2,
        ),
        seed=1,
        prompt_length=290,
    ),
    Case(
        name="m3-main-index-f32",
        description="Index heads as wide as those of attention, so that its keys fit the index branch.",
        sizes=M3Sizes(
            vocab_size=32,
            hidden_size=24,
            intermediate_size=12,
            dense_intermediate_size=16,
            shared_intermediate_size=12,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            rotary_dim=4,
            num_local_experts=4,
            num_experts_per_tok=2,
            moe_layer_freq=(0, 1),
            sparse_attention_freq=(0, 1),
            sparse_index_dim=8,
            sparse_block_size=4,
            sparse_topk_blocks=3,
        ),
        seed=1,
        prompt_length=40,
    ),
)
