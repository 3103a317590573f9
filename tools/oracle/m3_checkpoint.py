"""The config.json of an M3 case, and what its weights are drawn from."""

from collections.abc import Iterator
from dataclasses import asdict

from cases import Case
from drawing import DTYPE_NAMES, Drawn, matrix
from m3_cases import M3Sizes

INDEX_FIELDS = ("sparse_index_dim", "sparse_block_size", "sparse_topk_blocks", "sparse_local_block")
"""Sizes that stand in `sparse_attention_config`."""


def hub_config(case: Case) -> dict[str, object]:
    """The released config.json of M3 with the sizes of `case`, less its vision tower: there are no tensors for one."""
    sizes = asdict(case.sizes)
    sparse = {field: sizes.pop(field) for field in INDEX_FIELDS}
    sparse_layers = sizes.pop("sparse_attention_freq")
    text = sizes | {
        "attention_output_gate": False,
        "dtype": DTYPE_NAMES[case.stored],
        "hidden_act": "swigluoai",
        "max_position_embeddings": 1048576,
        "n_shared_experts": 1,
        "num_hidden_layers": case.sizes.num_hidden_layers,
        "partial_rotary_factor": case.sizes.rotary_dim / case.sizes.head_dim,
        "qk_norm_type": "per_head",
        "rms_norm_eps": 1e-6,
        "scoring_func": "sigmoid",
        "sparse_attention_config": sparse
        | {
            "sparse_attention_freq": sparse_layers,
            "sparse_disable_index_value": sparse_layers,
            "sparse_init_block": 0,
            "sparse_num_index_heads": case.sizes.num_key_value_heads,
            "sparse_score_type": "max",
            "use_sparse_attention": True,
        },
        "swiglu_beta": 1.0,
        "tie_word_embeddings": False,
        "use_gemma_norm": True,
        "use_qk_norm": True,
        "use_routing_bias": True,
    }
    return {
        "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
        "dtype": DTYPE_NAMES[case.stored],
        "model_type": "minimax_m3_vl",
        "text_config": dict(sorted(text.items())),
        "tie_word_embeddings": False,
    }


def weights(s: M3Sizes) -> Iterator[Drawn]:
    """All tensors. The gains are chosen so that a mistake anywhere shows in the logits:

    - Norms store their weight less one: around 0, and 0.3 where queries and keys are to pick out some keys or blocks.
    - The key projections are small, 0.004: their norm makes up for it, and its epsilon of 1e-6 is 6 % of the mean
      square.
    - Gates and ups spread by 4, so that one in twelve is beyond the limit of 7, and the down projection takes back what
      they are too large by.
    - Router logits spread by 1.5, their sigmoids by 0.26; the correction bias by 0.1, enough to change the choice of
      many tokens and to leave no expert out.
    - Logits spread by 4, so that the best token usually leads by more than rounding can take away.
    """
    query, key = s.num_attention_heads * s.head_dim, s.num_key_value_heads * s.head_dim
    index_heads, index_dim = s.num_key_value_heads, s.sparse_index_dim
    h = s.hidden_size

    def norm(name: str, width: int, mean: float = 0.0) -> Drawn:
        return Drawn(f"{name}.weight", (width,), mean, 0.3)

    def ffn(path: str, inner: int, names: tuple[str, str, str]) -> Iterator[Drawn]:
        gate, down, up = names
        yield matrix(f"{path}.{gate}.weight", inner, h, 4.0)
        yield matrix(f"{path}.{down}.weight", h, inner, 0.15)
        yield matrix(f"{path}.{up}.weight", inner, h, 4.0)

    yield Drawn("language_model.model.embed_tokens.weight", (s.vocab_size, h), 0.0, 1.0)
    for index, (has_experts, is_sparse) in enumerate(zip(s.moe_layer_freq, s.sparse_attention_freq, strict=True)):
        layer = f"language_model.model.layers.{index}"
        attention, moe = f"{layer}.self_attn", f"{layer}.block_sparse_moe"
        yield norm(f"{layer}.input_layernorm", h)
        yield matrix(f"{attention}.q_proj.weight", query, h, 1.0)
        yield matrix(f"{attention}.k_proj.weight", key, h, 0.004)
        yield matrix(f"{attention}.v_proj.weight", key, h, 1.5)
        yield norm(f"{attention}.q_norm", s.head_dim, 0.3)
        yield norm(f"{attention}.k_norm", s.head_dim, 0.3)
        yield matrix(f"{attention}.o_proj.weight", h, query, 1.5)
        if is_sparse:
            yield matrix(f"{attention}.index_q_proj.weight", index_heads * index_dim, h, 1.0)
            yield matrix(f"{attention}.index_k_proj.weight", index_dim, h, 0.004)
            yield norm(f"{attention}.index_q_norm", index_dim, 0.3)
            yield norm(f"{attention}.index_k_norm", index_dim, 0.3)
        yield norm(f"{layer}.post_attention_layernorm", h)
        if has_experts:
            yield matrix(f"{moe}.gate.weight", s.num_local_experts, h, 1.5)
            yield Drawn(f"{moe}.e_score_correction_bias", (s.num_local_experts,), 0.0, 0.1)
            for expert in range(s.num_local_experts):
                yield from ffn(f"{moe}.experts.{expert}", s.intermediate_size, ("w1", "w2", "w3"))
            yield from ffn(
                f"{moe}.shared_experts", s.shared_intermediate_size, ("gate_proj", "down_proj", "up_proj")
            )
        else:
            yield from ffn(f"{layer}.mlp", s.dense_intermediate_size, ("gate_proj", "down_proj", "up_proj"))
    yield norm("language_model.model.norm", h)
    yield matrix("language_model.lm_head.weight", s.vocab_size, h, 4.0)
