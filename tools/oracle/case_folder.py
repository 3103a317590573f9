"""A case that is no golden one: a folder of a checkpoint, the prompt, and what that shows."""

from pathlib import Path

import torch
from cases import Case
from checkpoint import write_checkpoint
from families import family_of
from provenance import SCHEMA, write_json
from safetensors.torch import save_file


def write_case(case: Case, folder: Path, **described: object) -> None:
    """Makes `folder`, where case.json has what is `described` beside the case's own description and the prompt."""
    (folder / "model").mkdir(parents=True)
    write_checkpoint(case, folder / "model")
    draw = torch.Generator().manual_seed(case.seed)
    family = family_of(case.name)
    prompt, shown = family.prompt(case, draw), family.shown(case, draw)
    if shown:
        save_file(shown, folder / "pixels.safetensors")
    document = {"schema": SCHEMA, **described, "description": case.description, "tokens": prompt}
    write_json(folder / "case.json", document)
