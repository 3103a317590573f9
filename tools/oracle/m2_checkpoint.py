"""Draws the weights of an M2 case and writes its checkpoint, in the hub's format or as the library saves it."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from m2_cases import Case, Layout, Sizes
from m2_model import load
from safetensors.torch import save_file

DTYPE_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def write_checkpoint(case: Case, folder: Path) -> None:
    """Writes `case`'s checkpoint into `folder`, which exists and is empty."""
    if case.layout is Layout.SAVE_PRETRAINED:
        _save_pretrained(case, asdict(case.sizes), folder, save_original_format=True)
    elif case.layout is Layout.FUSED:
        _save_pretrained(case, hub_config(case), folder, save_original_format=False)
    else:
        _write_hub(case, hub_config(case), folder)


def _save_pretrained(case: Case, config: dict[str, object], folder: Path, save_original_format: bool) -> None:
    """Lets the library load the hub's format and save it; what `config` does not say gets the library's defaults."""
    with TemporaryDirectory() as hub:
        _write_hub(case, config, Path(hub))
        load(Path(hub), case.stored).save_pretrained(folder, save_original_format=save_original_format)


def hub_config(case: Case) -> dict[str, object]:
    """The released config.json of M2.7 with the sizes of `case`, less what says that the weights are in FP8."""
    sizes = asdict(case.sizes)
    config = sizes | {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "attn_type_list": [1] * case.sizes.num_hidden_layers,
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
    return dict(sorted(config.items()))


def hub_tensors(case: Case) -> dict[str, torch.Tensor]:
    """All weights by their names on the hub, in the types in which they are stored; the router is float32 always."""
    draw = torch.Generator().manual_seed(case.seed)
    tensors = {}
    for name, shape, mean, deviation in _distributions(case.sizes):
        values = mean + deviation * torch.randn(shape, generator=draw, dtype=torch.float64)
        in_router = name.endswith(("gate.weight", "e_score_correction_bias"))
        tensors[name] = values.to(torch.float32 if in_router else case.stored)
    return tensors


def _distributions(s: Sizes) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
    """Each tensor's hub name, shape, mean and standard deviation.

    A matrix with deviation g/√(inputs) turns inputs of unit size into outputs of size g. The gains g are chosen so that
    a mistake anywhere shows in the logits:

    - The key projection is small, 0.004: k_norm makes up for it, and its epsilon of 1e-6 is 6 % of the mean square.
    - The norms of queries and keys multiply by about 1.5, so that attention picks out some keys.
    - Router logits spread by 1.5, their sigmoids by 0.26; the correction bias by 0.1, enough to change the choice of
      many tokens and to leave no expert out.
    - Attention and experts each add about as much to the residual stream as the embedding.
    - Logits spread by 4, so that the best token usually leads by more than rounding can take away.
    """
    query, key = s.num_attention_heads * s.head_dim, s.num_key_value_heads * s.head_dim
    h, i = s.hidden_size, s.intermediate_size

    def matrix(outputs: int, inputs: int, gain: float) -> tuple[tuple[int, int], float, float]:
        return (outputs, inputs), 0.0, gain / math.sqrt(inputs)

    yield "model.embed_tokens.weight", (s.vocab_size, h), 0.0, 1.0
    for layer in range(s.num_hidden_layers):
        attention = f"model.layers.{layer}.self_attn"
        moe = f"model.layers.{layer}.block_sparse_moe"
        yield f"model.layers.{layer}.input_layernorm.weight", (h,), 1.0, 0.3
        yield f"{attention}.q_proj.weight", *matrix(query, h, 1.0)
        yield f"{attention}.k_proj.weight", *matrix(key, h, 0.004)
        yield f"{attention}.v_proj.weight", *matrix(key, h, 1.5)
        yield f"{attention}.q_norm.weight", (query,), 1.5, 0.4
        yield f"{attention}.k_norm.weight", (key,), 1.5, 0.4
        yield f"{attention}.o_proj.weight", *matrix(h, query, 1.5)
        yield f"model.layers.{layer}.post_attention_layernorm.weight", (h,), 1.0, 0.3
        yield f"{moe}.gate.weight", *matrix(s.num_local_experts, h, 1.5)
        yield f"{moe}.e_score_correction_bias", (s.num_local_experts,), 0.0, 0.1
        for expert in range(s.num_local_experts):
            yield f"{moe}.experts.{expert}.w1.weight", *matrix(i, h, 1.5)
            yield f"{moe}.experts.{expert}.w2.weight", *matrix(h, i, 1.5)
            yield f"{moe}.experts.{expert}.w3.weight", *matrix(i, h, 1.5)
    yield "model.norm.weight", (h,), 1.0, 0.3
    yield "lm_head.weight", *matrix(s.vocab_size, h, 4.0)


def _write_hub(case: Case, config: dict[str, object], folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = hub_tensors(case)
    if case.layout is Layout.SHARDED:
        _write_shards(tensors, folder, shards=case.sizes.num_hidden_layers + 1)
    else:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _write_shards(tensors: dict[str, torch.Tensor], folder: Path, shards: int) -> None:
    """Splits `tensors` into files of nearly equal count, which cuts through layers as the hub's shards do."""
    names = list(tensors)
    index: dict[str, str] = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        mine = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        save_file({name: tensors[name] for name in mine}, folder / file, metadata={"format": "pt"})
        index |= dict.fromkeys(mine, file)
    total = sum(tensor.nbytes for tensor in tensors.values())
    document = {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document, indent=2) + "\n")
