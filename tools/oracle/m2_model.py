"""Loads an M2 checkpoint so that transformers computes what the released model computes, and decodes with it."""

from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import MiniMaxM2ForCausalLM
from transformers.utils import logging

PRECISIONS = {torch.float32: "eager_f32", torch.bfloat16: "eager_bf16"}
"""What a dump says of its rounding points: those of the library's eager path in this type."""

KEPT_INPUTS = ("*.o_proj", "*.post_attention_layernorm")
"""Modules whose input no module returns: the attention's context, and the residual stream before the experts."""


def prepare_library() -> None:
    """One thread and no algorithm whose order of summation may vary: the same machine then gives the same bytes.

    The library's progress bars and warnings go: it warns that its default token ids are outside of a tiny vocabulary.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def load(folder: Path, dtype: torch.dtype) -> MiniMaxM2ForCausalLM:
    """The model of `folder`, its activations in `dtype` and its router as stored, in plain ("eager") operators.

    Loading in bfloat16 rounds the router's weight and correction bias as well, although they are stored in float32
    and every serving engine keeps them so; here they get their stored values back, and the router computes in float32.
    """
    model = _load_as_is(folder, dtype)
    if dtype is not torch.float32:
        for mine, exact in zip(
            _router_tensors(model), _router_tensors(_load_as_is(folder, torch.float32)), strict=True
        ):
            mine.data = exact.data
    rotated, wanted = 2 * len(model.model.rotary_emb.inv_freq), model.config.rotary_dim
    if rotated != wanted:
        raise RuntimeError(
            f"{folder}: the library rotates {rotated} channels of each head, expected rotary_dim = {wanted}"
        )
    return model


def _load_as_is(folder: Path, dtype: torch.dtype) -> MiniMaxM2ForCausalLM:
    model, report = MiniMaxM2ForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True
    )
    if any(report.values()):
        raise RuntimeError(f"{folder}: expected every tensor to find its place, found {report}")
    return model.eval()


def _router_tensors(model: MiniMaxM2ForCausalLM) -> Iterator[torch.Tensor]:
    for layer in model.model.layers:
        yield layer.mlp.gate.weight
        yield layer.mlp.e_score_correction_bias


class GreedyDecoder:
    """Takes the best token again and again, with a cache of keys and values."""

    def __init__(self, model: MiniMaxM2ForCausalLM) -> None:
        self.model, self.cache = model, None
        self.tokens: list[int] = []
        self.margins: list[float] = []

    def feed(self, tokens: list[int]) -> None:
        """Runs the model on the `tokens` that follow what it has seen, and takes the next token."""
        output = self.model(torch.tensor([tokens]), past_key_values=self.cache, use_cache=True)
        self.cache = output.past_key_values
        best = output.logits[0, -1].float().topk(2)
        self.tokens.append(int(best.indices[0]))
        self.margins.append(float(best.values[0] - best.values[1]))
