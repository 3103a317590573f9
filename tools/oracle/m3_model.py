"""Loads the text part of an M3 checkpoint so that transformers computes what the released model computes."""

from collections.abc import Iterator
from pathlib import Path

import torch
from model import PLAIN, require_rotated, restore
from transformers import (
    MiniMaxM3SparseForConditionalGeneration,
    MiniMaxM3VLConfig,
    MiniMaxM3VLForCausalLM,
    MiniMaxM3VLVisionConfig,
)

MODES = ("prefill", "generate", "static", "chunks", "right")
"""How the sweep calls the model; under left padding the library's M3 is wrong."""

NOT_TEXT = ("model.vision_tower.", "model.multi_modal_projector.")
"""Where the library puts what a case's checkpoint has no tensors for."""


def load(folder: Path, dtype: torch.dtype) -> MiniMaxM3VLForCausalLM:
    """The text model of `folder`, its activations in `dtype` and its router as stored, in plain ("eager") operators."""
    model = _load_as_is(folder, dtype)
    if dtype is not torch.float32:
        restore(_router_tensors(model), _router_tensors(_load_as_is(folder, torch.float32)))
    require_rotated(folder, model)
    return model


def from_pretrained(folder: Path, **options: object) -> MiniMaxM3SparseForConditionalGeneration:
    """The whole model of `folder` as people load it, with the least vision tower, of which the checkpoint has none.

    The library gives a report with it where `options` ask for one.
    """
    config = MiniMaxM3VLConfig.from_pretrained(folder)
    config.vision_config = MiniMaxM3VLVisionConfig(
        hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    )
    return MiniMaxM3SparseForConditionalGeneration.from_pretrained(folder, config=config, **options)


def _load_as_is(folder: Path, dtype: torch.dtype) -> MiniMaxM3VLForCausalLM:
    """Only the whole model knows the hub's names, so it is loaded and taken apart."""
    whole, report = from_pretrained(folder, dtype=dtype, **PLAIN, output_loading_info=True)
    report["missing_keys"] = {name for name in report["missing_keys"] if not name.startswith(NOT_TEXT)}
    if any(report.values()):
        raise RuntimeError(f"{folder}: expected every tensor of the text to find its place, found {report}")
    text = MiniMaxM3VLForCausalLM(whole.config.text_config)
    text.model, text.lm_head = whole.model.language_model, whole.lm_head
    return text.eval()


def _router_tensors(model: MiniMaxM3VLForCausalLM) -> Iterator[torch.Tensor]:
    for layer in model.model.layers:
        if hasattr(layer.mlp, "gate"):
            yield layer.mlp.gate.weight
            yield layer.mlp.gate.e_score_correction_bias
