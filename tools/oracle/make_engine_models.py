"""Makes the checkpoints and prompts of `fixtures/golden-engines/cases`, which engines other than transformers compute from.

    python tools/oracle/make_engine_models.py --out fixtures/golden-engines/cases

A case is a folder: `model/`, a checkpoint in the hub's format; `case.json`, its prompt; `pixels.safetensors`, where the
prompt shows an image. What engines compute from it is made by the scripts in `tools/engines`.
"""

import pinned  # isort: skip  # noqa: F401
import argparse
from pathlib import Path

import torch
from checkpoint import write_checkpoint
from engine_cases import CASES
from families import family_of
from provenance import SCHEMA, hashes, require_versions, software, write_json
from safetensors.torch import save_file


def main() -> None:
    """Makes all cases, in the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Makes the checkpoints that other engines compute dumps from.")
    parser.add_argument("--out", type=Path, required=True, help="the folder in which each case gets a folder of its own")
    out = parser.parse_args().out
    require_versions()
    for case in CASES:
        folder = out / case.name
        (folder / "model").mkdir(parents=True)
        write_checkpoint(case, folder / "model")
        draw = torch.Generator().manual_seed(case.seed)
        family = family_of(case.name)
        prompt, shown = family.prompt(case, draw), family.shown(case, draw)
        if shown:
            save_file(shown, folder / "pixels.safetensors")
        document = {"schema": SCHEMA, "description": case.description, "tokens": prompt}
        write_json(folder / "case.json", document)
    command = "python tools/oracle/make_engine_models.py --out fixtures/golden-engines/cases"
    write_json(out / "provenance.json", {"schema": SCHEMA, "command": command, **software(), "sha256": hashes(out)})


if __name__ == "__main__":
    main()
