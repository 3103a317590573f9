"""Makes dumps of golden cases' models as people run them: right runs of the library, in other ways than the cases'.

    python tools/oracle/make_runs.py --golden fixtures/golden --out fixtures/golden-runs

Needs exactly the versions in requirements.txt. The dumps are made by `tools/capture`, whose manifests say all that a
reader needs; most are coarse, so that choices of experts and blocks are not shown. The folder has

    CASE/NAME.safetensors  what was kept
    index.json             each dump's file, case, and how the model was run, by the names in sweep_cells
    provenance.json        command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
import json
from pathlib import Path
from typing import NamedTuple

import torch
from filled import of_cases
from model import prepare_library
from provenance import record, write_index
from safetensors.torch import load_file
from sweep_cells import Cell
from sweep_dumps import captured


class Run(NamedTuple):
    """A dump. Without a `seed` its prompt is the case's own, with one as many tokens drawn by it."""

    name: str
    case: str
    cell: Cell
    seed: int | None = None


def _run(name: str, case: str, cell: str, seed: int | None = None) -> Run:
    return Run(name, case, Cell(case.partition("-")[0], *cell.split("/")), seed)


RUNS = (
    _run("bf16-generate", "m2-sharded-bf16", "bf16/sdpa/default/generate/layers"),
    _run("bf16-left", "m2-sharded-bf16", "bf16/sdpa/batched/left-generate/layers"),
    _run("f16-parts", "m2-sharded-bf16", "f16/eager/default/prefill/parts"),
    _run("bf16-right", "m2-gqa3-f32", "bf16/sdpa/default/right/layers"),
    _run("bf16-static", "m3-sharded-bf16", "bf16/sdpa/default/static/layers"),
    _run("bf16-chunks", "m3-sharded-bf16", "bf16/eager/eager/chunks/parts"),
    _run("f16-right", "m3-gqa4-f32", "f16/sdpa/eager/right/layers"),
    _run("bf16-near-tie", "m3-gqa4-f32", "bf16/sdpa/batched/prefill/layers", seed=0),
    _run("bf16-generate", "vision-images-bf16", "bf16/sdpa/batched/generate/layers"),
    _run("bf16-packed", "m2-gqa3-f32", "bf16/sdpa/default/packed/layers"),
    _run("bf16-images", "vision-images-bf16", "bf16/sdpa/batched/images/layers"),
    _run("f16-turns", "vision-images-bf16", "f16/sdpa/batched/turns/layers"),
    _run("autocast-bf16-layers", "m2-gqa3-f32", "autocast_bf16/sdpa/eager/prefill/layers"),
    _run("autocast-f16-parts", "m3-gqa4-f32", "autocast_f16/eager/batched/prefill/parts"),
)
"""The prompt of the near tie is one by which a token chooses other experts than exact arithmetic does."""


def main() -> None:
    """Makes them all."""
    of_cases("Makes dumps of golden cases' models as people run them.", make)


def make(golden: Path, folder: Path) -> None:
    """Writes all dumps of the cases in `golden` into `folder`, which is empty."""
    prepare_library()
    dumps = []
    for run in RUNS:
        file = f"{run.case}/{run.name}.safetensors"
        (folder / run.case).mkdir(exist_ok=True)
        write(run, golden / run.case, folder / file)
        dumps.append({"file": file, "case": run.case, "run": "/".join(run.cell[1:])})
    write_index(folder, dumps)
    record(folder, "make_runs.py --golden fixtures/golden --out fixtures/golden-runs")


def write(run: Run, case: Path, dump: Path) -> None:
    """Writes one dump of the model of a case's folder."""
    tokens = json.loads((case / "case.json").read_text())["tokens"]
    if run.seed is not None:
        draw = torch.Generator().manual_seed(run.seed)
        tokens = torch.randint(max(tokens), (len(tokens),), generator=draw).tolist()
    pixels = case / "pixels.safetensors"
    shown = load_file(pixels) if pixels.exists() else {}
    captured(run.cell, case / "model", tokens, shown).save(dump)


if __name__ == "__main__":
    main()
