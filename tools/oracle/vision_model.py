"""Loads a whole M3 so that transformers computes what the released model computes, and draws what a prompt shows."""

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from model import PLAIN, restore
from torch import Tensor
from transformers import MiniMaxM3SparseForConditionalGeneration
from vision_cases import IMAGE_TOKEN, VIDEO_TOKEN, Grid, VisionCase
from vision_checkpoint import CHANNELS, FRAMES, MERGE

MODES = ("prefill", "generate", "static", "images", "turns")
"""How the sweep calls the model."""

MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
"""By which the processor normalises colours between 0 and 1."""


def load(folder: Path, dtype: torch.dtype) -> MiniMaxM3SparseForConditionalGeneration:
    """The model of `folder`, its activations in `dtype` and its router as stored, in plain ("eager") operators."""
    model = _load_as_is(folder, dtype)
    if dtype is not torch.float32:
        restore(_router_tensors(model), _router_tensors(_load_as_is(folder, torch.float32)))
    return model


def from_pretrained(folder: Path, **options: object) -> MiniMaxM3SparseForConditionalGeneration:
    """The model of `folder` as people load it; the library gives a report with it where `options` ask for one."""
    return MiniMaxM3SparseForConditionalGeneration.from_pretrained(folder, **options)


def _load_as_is(folder: Path, dtype: torch.dtype) -> MiniMaxM3SparseForConditionalGeneration:
    model, report = from_pretrained(folder, dtype=dtype, **PLAIN, output_loading_info=True)
    if any(report.values()):
        raise RuntimeError(f"{folder}: expected every tensor to find its place, found {report}")
    return model.eval()


def _router_tensors(model: MiniMaxM3SparseForConditionalGeneration) -> Iterator[Tensor]:
    for layer in model.model.language_model.layers:
        if hasattr(layer.mlp, "gate"):
            yield layer.mlp.gate.weight
            yield layer.mlp.gate.e_score_correction_bias


def prompt(case: VisionCase, draw: torch.Generator) -> list[int]:
    """Text with the places of all videos, then of each image, inside it."""
    words = iter(torch.randint(VIDEO_TOKEN + 1, case.sizes.vocab_size, (case.prompt_length,), generator=draw).tolist())
    tokens = [next(words), next(words)]
    for token, grids in ((VIDEO_TOKEN, case.videos), *((IMAGE_TOKEN, (grid,)) for grid in case.images)):
        places = sum(math.prod(grid) for grid in grids) // MERGE**2
        if places:
            tokens += [token] * places + [next(words), next(words)]
    return tokens + list(words)


def shown(case: VisionCase, draw: torch.Generator) -> dict[str, Tensor]:
    """Pixels of all patches, by the processor's names: colours between 0 and 1, normalised."""
    tensors = {}
    for grids, values, name in (
        (case.images, "pixel_values", "image_grid_thw"),
        (case.videos, "pixel_values_videos", "video_grid_thw"),
    ):
        if grids:
            tensors[values] = _pixels(grids, case.sizes.tower.patch_size, draw)
            tensors[name] = torch.tensor(grids)
    return tensors


def _pixels(grids: tuple[Grid, ...], side: int, draw: torch.Generator) -> Tensor:
    patches = sum(math.prod(grid) for grid in grids)
    colours = torch.rand((patches, CHANNELS, FRAMES * side * side), generator=draw)
    mean, deviation = (torch.tensor(values)[:, None] for values in (MEAN, DEVIATION))
    return ((colours - mean) / deviation).flatten(1)
