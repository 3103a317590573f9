"""Makes the golden cases: tiny checkpoints, and what the transformers library computes with them.

    python tools/oracle/make_golden.py --out fixtures/golden [--case NAME]…

Needs exactly the versions in requirements.txt or in requirements-5.12.txt, and makes the cases of that version of the
library; `--list` says which. With what `pinned` sets, a rerun gives the same bytes on every x86-64 processor that has
AVX2. A case is a folder:

    model/                 the checkpoint; everything below was computed from these files, read back
    case.json              prompt, greedy tokens with their margins, semantics, precision, and measured properties
    expected.safetensors   the output of every module for the prompt, the logits, and the inputs in KEPT_INPUTS
    decode.safetensors     step.N.PATH of the step that is fed greedy token N − 1, counted from 0: logits, experts and
                           blocks, or, where the case says so, the output of every module
    pixels.safetensors     where the prompt shows something: pixel_values and image_grid_thw, or those of videos
    provenance.json        seed, command, versions, machine, and the SHA-256 of each file of the case
"""

import pinned  # isort: skip
import argparse
import sys
from pathlib import Path

import torch
from capturing import Capture
from cases import Case
from checkpoint import write_checkpoint
from families import CASES, family_of
from model import KEPT_INPUTS, PRECISIONS, GreedyDecoder, prepare_library
from properties import Pass, require_useful
from provenance import SCHEMA, hashes, require_versions, software, write_json
from safetensors.torch import save_file
from whole import replacing

KEPT_OF_DECODE = ("logits", "*.mlp.gate", "*.mlp.gate.*", "*.self_attn.indexer")
"""What each step of a decode keeps unless its case keeps all: with what was chosen, the decode can be replayed."""


def main() -> None:
    """Makes the cases that the command line names, by default all of this version of the library."""
    libraries = {case.name: case.library for case in CASES}
    parser = argparse.ArgumentParser(description="Makes the golden cases with the transformers library.")
    parser.add_argument("--list", action="store_true", help="list the cases that this environment makes, and stop")
    parser.add_argument("--out", type=Path, help="the folder in which each case gets a folder of its own")
    parser.add_argument("--case", action="append", choices=libraries, help="only this case; may be repeated")
    arguments = parser.parse_args()
    library = require_versions()
    mine = [case for case in CASES if case.library is library]
    if arguments.list:
        print("\n".join(case.name for case in mine))
        return
    if arguments.out is None:
        parser.error("--out is needed, or --list")
    wanted = arguments.case or [case.name for case in mine]
    for name in wanted:
        if libraries[name] is not library:
            other = libraries[name]
            sys.exit(
                f"error: {name} is made by transformers {other.value}, found {library.value}\n"
                f"help: pip install -r tools/oracle/{other.requirements} in another environment"
            )
    prepare_library()
    for case in mine:
        if case.name in wanted:
            with replacing(arguments.out / case.name) as folder:
                make(case, folder)
            size = sum(file.stat().st_size for file in (arguments.out / case.name).rglob("*") if file.is_file())
            print(f"{case.name}: {size / 1e6:.2f} MB")


@torch.no_grad()
def make(case: Case, folder: Path) -> None:
    """Writes all files of `case` into `folder`, which is empty."""
    family = family_of(case.name)
    (folder / "model").mkdir()
    write_checkpoint(case, folder / "model")
    model = family.load(folder / "model", case.computed)
    draw = torch.Generator().manual_seed(case.seed)
    prompt, shown = family.prompt(case, draw), family.shown(case, draw)

    decoder = GreedyDecoder(model)
    with Capture(model, inputs=KEPT_INPUTS) as prefill:
        decoder.feed(prompt, **shown)
    wanted = ("*",) if case.decode_sites else KEPT_OF_DECODE
    with Capture(model, first_step=1, include=wanted, inputs=KEPT_INPUTS) as steps:
        while len(decoder.tokens) < case.decode_length:
            decoder.feed(decoder.tokens[-1:])

    fed = prompt + decoder.tokens[:-1]
    measured = family.properties(Pass(model, prefill.tensors, steps.tensors, fed, decoder.margins))
    require_useful(case.name, measured, family.least)
    described = {
        "model": case.name,
        "semantics": case.library.semantics,
        "precision": PRECISIONS[case.computed],
    }
    if shown:
        save_file(shown, folder / "pixels.safetensors")
    prefill.save(folder / "expected.safetensors", tokens=prompt, **described)
    steps.save(folder / "decode.safetensors", tokens=fed, **described)
    write_json(
        folder / "case.json",
        {
            "schema": SCHEMA,
            **described,
            "description": case.description,
            "tokens": prompt,
            "decode": {"tokens": decoder.tokens, "margins": decoder.margins},
            "properties": measured,
        },
    )
    write_json(folder / "provenance.json", _provenance(case, folder))


def _provenance(case: Case, folder: Path) -> dict[str, object]:
    router = "float32 as stored; the library's loader had rounded it to the type of the activations"
    return {
        "schema": SCHEMA,
        "command": f"python tools/oracle/make_golden.py --out fixtures/golden --case {case.name}",
        "seed": case.seed,
        "layout": case.layout.value,
        "attention": "eager",
        "experts": "eager",
        "router": "float32 as stored" if case.computed is torch.float32 else router,
        **software(),
        "sha256": hashes(folder),
    }


if __name__ == "__main__":
    main()
