"""Makes the checkpoints and prompts of `fixtures/golden-engines/cases`, which other engines than transformers take.

    python tools/oracle/make_engine_models.py --out fixtures/golden-engines/cases

A case is a folder: `model/`, a checkpoint in the hub's format; `case.json`, its prompt; `pixels.safetensors`, where the
prompt shows an image. What engines compute from it is made by the scripts in `tools/engines`.
"""

import pinned  # isort: skip
import argparse
from pathlib import Path

import torch
from cases import Case
from checkpoint import write_checkpoint
from engine_cases import CASES
from families import family_of
from provenance import SCHEMA, record, require_versions, write_json
from safetensors.torch import save_file
from whole import replacing


def main() -> None:
    """Makes them all."""
    parser = argparse.ArgumentParser(description="Makes the checkpoints that other engines compute dumps from.")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make, or to replace")
    arguments = parser.parse_args()
    require_versions()
    with replacing(arguments.out) as folder:
        for case in CASES:
            _write_case(case, folder / case.name)
        record(folder, "make_engine_models.py --out fixtures/golden-engines/cases")


def _write_case(case: Case, folder: Path) -> None:
    (folder / "model").mkdir(parents=True)
    write_checkpoint(case, folder / "model")
    draw = torch.Generator().manual_seed(case.seed)
    family = family_of(case.name)
    prompt, shown = family.prompt(case, draw), family.shown(case, draw)
    if shown:
        save_file(shown, folder / "pixels.safetensors")
    write_json(folder / "case.json", {"schema": SCHEMA, "description": case.description, "tokens": prompt})


if __name__ == "__main__":
    main()
