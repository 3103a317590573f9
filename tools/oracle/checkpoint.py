"""Draws the weights of a case and writes its checkpoint, in the hub's format or as the library saves it."""

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from cases import Case, Layout
from families import family_of
from safetensors.torch import save_file


WIDE = ("gate.weight", "e_score_correction_bias", "patch_embedding.weight")
"""Endings of the names of what is float32 always: the router, and a vision tower's patch embedding."""


def write_checkpoint(case: Case, folder: Path) -> None:
    """Writes `case`'s checkpoint into `folder`, which exists and is empty."""
    config = family_of(case.name).config(case)
    if case.layout is Layout.SAVE_PRETRAINED:
        _save_pretrained(case, asdict(case.sizes), folder, save_original_format=True)
    elif case.layout is Layout.FUSED:
        _save_pretrained(case, config, folder, save_original_format=False)
    else:
        _write_hub(case, config, folder)


def _save_pretrained(case: Case, config: dict[str, object], folder: Path, save_original_format: bool) -> None:
    """Lets the library load the hub's format and save it; what `config` does not say gets the library's defaults."""
    with TemporaryDirectory() as hub:
        _write_hub(case, config, Path(hub))
        model = family_of(case.name).load(Path(hub), case.stored)
        model.save_pretrained(folder, save_original_format=save_original_format)


def hub_tensors(case: Case) -> dict[str, torch.Tensor]:
    """All weights by their names on the hub, in the types in which they are stored."""
    draw = torch.Generator().manual_seed(case.seed)
    tensors = {}
    for name, shape, mean, deviation in family_of(case.name).weights(case.sizes):
        values = mean + deviation * torch.randn(shape, generator=draw, dtype=torch.float64)
        tensors[name] = values.to(torch.float32 if name.endswith(WIDE) else case.stored)
    return tensors


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
