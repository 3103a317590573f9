"""Loads an M2 checkpoint so that transformers computes what the released model computes."""

from collections.abc import Iterator
from pathlib import Path

import torch
from model import PLAIN, require_rotated, restore
from transformers import MiniMaxM2ForCausalLM

MODES = ("prefill", "generate", "static", "chunks", "left", "left-generate", "right", "packed")
"""How the sweep calls the model."""


def load(folder: Path, dtype: torch.dtype) -> MiniMaxM2ForCausalLM:
    """The model of `folder`, its activations in `dtype` and its router as stored, in plain ("eager") operators."""
    model = _load_as_is(folder, dtype)
    if dtype is not torch.float32:
        restore(_router_tensors(model), _router_tensors(_load_as_is(folder, torch.float32)))
    require_rotated(folder, model)
    return model


def from_pretrained(folder: Path, **options: object) -> MiniMaxM2ForCausalLM:
    """The model of `folder` as people load it; the library gives a report with it where `options` ask for one."""
    return MiniMaxM2ForCausalLM.from_pretrained(folder, **options)


def _load_as_is(folder: Path, dtype: torch.dtype) -> MiniMaxM2ForCausalLM:
    model, report = from_pretrained(folder, dtype=dtype, **PLAIN, output_loading_info=True)
    if any(report.values()):
        raise RuntimeError(f"{folder}: expected every tensor to find its place, found {report}")
    return model.eval()


def _router_tensors(model: MiniMaxM2ForCausalLM) -> Iterator[torch.Tensor]:
    for layer in model.model.layers:
        yield layer.mlp.gate.weight
        yield layer.mlp.e_score_correction_bias
