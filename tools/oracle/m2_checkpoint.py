"""The config.json of an M2 case, and what its weights are drawn from."""

from collections.abc import Iterator
from dataclasses import asdict

from cases import Case
from drawing import DTYPE_NAMES, Drawn, matrix
from m2_cases import M2Sizes


def hub_config(case: Case) -> dict[str, object]:
    """The released config.json of M2.7 with the sizes of `case`, less what says that the weights are in FP8."""
    sizes = asdict(case.sizes)
    config = {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "attn_type_list": [1] * sizes["num_hidden_layers"],
        "auto_map": {
            "AutoConfig": "configuration_minimax_m2.MiniMaxM2Config",
            "AutoModelForCausalLM": "modeling_minimax_m2.MiniMaxM2ForCausalLM",
        },
        "hidden_act": "silu",
        "max_position_embeddings": 204800,
        "model_type": "minimax_m2",
        "mtp_transformer_layers": 1,
        "num_mtp_modules": 3,
        "qk_norm_type": "per_layer",
        "rms_norm_eps": 1e-6,
        "scoring_func": "sigmoid",
        "shared_intermediate_size": 0,
        "tie_word_embeddings": False,
        "torch_dtype": DTYPE_NAMES[case.stored],
        "transformers_version": "4.46.1",
        "use_cache": True,
        "use_mtp": True,
        "use_qk_norm": True,
        "use_routing_bias": True,
    }
    return dict(sorted((config | sizes).items()))


def weights(s: M2Sizes) -> Iterator[Drawn]:
    """All tensors. The gains are chosen so that a mistake anywhere shows in the logits:

    - The key projection is small, 0.004: k_norm makes up for it, and its epsilon of 1e-6 is 6 % of the mean square.
    - The norms of queries and keys multiply by about 1.5, so that attention picks out some keys.
    - Router logits spread by 1.5, their sigmoids by 0.26; the correction bias by 0.1, enough to change the choice of
      many tokens and to leave no expert out.
    - Attention and experts each add about as much to the residual stream as the embedding.
    - Logits spread by 4, so that the best token usually leads by more than rounding can take away.
    """
    query, key = s.num_attention_heads * s.head_dim, s.num_key_value_heads * s.head_dim
    h, i = s.hidden_size, s.intermediate_size

    yield Drawn("model.embed_tokens.weight", (s.vocab_size, h), 0.0, 1.0)
    for layer in range(s.num_hidden_layers):
        attention = f"model.layers.{layer}.self_attn"
        moe = f"model.layers.{layer}.block_sparse_moe"
        yield Drawn(f"model.layers.{layer}.input_layernorm.weight", (h,), 1.0, 0.3)
        yield matrix(f"{attention}.q_proj.weight", query, h, 1.0)
        yield matrix(f"{attention}.k_proj.weight", key, h, 0.004)
        yield matrix(f"{attention}.v_proj.weight", key, h, 1.5)
        yield Drawn(f"{attention}.q_norm.weight", (query,), 1.5, 0.4)
        yield Drawn(f"{attention}.k_norm.weight", (key,), 1.5, 0.4)
        yield matrix(f"{attention}.o_proj.weight", h, query, 1.5)
        yield Drawn(f"model.layers.{layer}.post_attention_layernorm.weight", (h,), 1.0, 0.3)
        yield matrix(f"{moe}.gate.weight", s.num_local_experts, h, 1.5)
        yield Drawn(f"{moe}.e_score_correction_bias", (s.num_local_experts,), 0.0, 0.1)
        for expert in range(s.num_local_experts):
            yield matrix(f"{moe}.experts.{expert}.w1.weight", i, h, 1.5)
            yield matrix(f"{moe}.experts.{expert}.w2.weight", h, i, 1.5)
            yield matrix(f"{moe}.experts.{expert}.w3.weight", i, h, 1.5)
    yield Drawn("model.norm.weight", (h,), 1.0, 0.3)
    yield matrix("lm_head.weight", s.vocab_size, h, 4.0)
