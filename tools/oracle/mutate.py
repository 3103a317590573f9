"""Dumps what a golden case would compute if the model's implementation had one known mistake.

    python tools/oracle/mutate.py --case fixtures/golden/m2-gqa3-f32 --mistake rope_last_half --out dump.safetensors
    python tools/oracle/mutate.py --case fixtures/golden/m3-gqa4-f32 --list

The dump looks like the case's expected.safetensors, or like a coarser hook's with `--keep PATTERN`, which may be
repeated. Printed is by how much the logits differ from the case's; a mistake that changes nothing in a case (tiled key
heads where there is only one) is an error, and no dump is written, unless what the mistake asks to keep shows it.
"""

import pinned  # isort: skip
import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from capturing import Capture
from families import CASES, family_of
from mistake_cases import CASES as OTHER_CASES
from model import KEPT_INPUTS, PRECISIONS, prepare_library
from provenance import require_versions
from safetensors.torch import load_file
from transformers import PreTrainedModel


class Changed(NamedTuple):
    """What a mistake did to the logits of a case."""

    largest: float
    of_size: float
    """The largest change, in parts of the logits' root mean square."""
    best_tokens: int
    positions: int

    def __str__(self) -> str:
        """In one line."""
        size = f"up to {self.largest:.3g} ({self.of_size:.1%} of their root mean square)"
        return f"logits differ by {size}, {self.best_tokens} of {self.positions} best tokens change"


def main() -> None:
    """Lists the mistakes, or makes one."""
    parser = argparse.ArgumentParser(description="Dumps a golden case as computed with one known mistake.")
    parser.add_argument("--case", type=Path, required=True, help="the folder of a golden case")
    parser.add_argument("--list", action="store_true", help="list the mistakes of the case's family and stop")
    parser.add_argument("--mistake", help="the mistake to make")
    parser.add_argument("--out", type=Path, help="the dump to write, .safetensors or .npz")
    parser.add_argument("--keep", action="append", metavar="PATTERN", help="keep only such sites; * matches dots too")
    arguments = parser.parse_args()
    case = json.loads((arguments.case / "case.json").read_text())
    mistakes = family_of(case["model"]).mistakes
    if arguments.list:
        width = max(map(len, mistakes))
        print("\n".join(f"{name:{width}}  {mistake.description}" for name, mistake in mistakes.items()))
    elif None in (arguments.mistake, arguments.out):
        parser.error("--mistake and --out are needed, or --list")
    elif arguments.mistake not in mistakes:
        parser.error(f"--mistake {arguments.mistake} is not known, expected one of {', '.join(mistakes)}")
    else:
        prepare_library()
        changed = mutate(arguments.case, arguments.mistake, arguments.out, arguments.keep or ["*"])
        print(f"{arguments.mistake} in {case['model']}: {changed}")


@torch.no_grad()
def mutate(folder: Path, name: str, out: Path, keep: Sequence[str]) -> Changed:
    """Writes what `keep` matches of case `folder` with mistake `name` to `out`."""
    case = json.loads((folder / "case.json").read_text())
    _require_library(case["model"])
    family = family_of(case["model"])
    dtype = next(dtype for dtype, precision in PRECISIONS.items() if precision == case["precision"])
    model = family.load(folder / "model", dtype)
    pixels = folder / "pixels.safetensors"
    shown = load_file(pixels) if pixels.exists() else {}
    mistake = family.mistakes[name]
    right = _logits(model, case["tokens"], mistake.calls, shown)
    with mistake.inject(model), Capture(model, include=keep, inputs=KEPT_INPUTS) as mistaken:
        wrong = _logits(model, case["tokens"], mistake.calls, shown)
    if torch.equal(wrong, right) and not mistake.shows_more:
        unseen = f"error: {name} ({mistake.description}) changes no logit of {case['model']}"
        sys.exit(f"{unseen}\nhelp: make it in another case")
    described = {key: case[key] for key in ("tokens", "model", "semantics", "precision")}
    mistaken.save(out, producer={"mistake": name}, **described)
    return _changed(wrong, right)


def _logits(
    model: PreTrainedModel, tokens: list[int], calls: Sequence[int], shown: dict[str, torch.Tensor]
) -> torch.Tensor:
    """Those of all tokens, which go into the model at once, or so many in each call."""
    if not calls:
        return model(torch.tensor([tokens]), **shown).logits.float()
    cache, logits = None, []
    for piece in torch.tensor([tokens]).split(list(calls), dim=1):
        output = model(piece, past_key_values=cache, use_cache=True, **shown)
        cache = output.past_key_values
        logits.append(output.logits.float())
    return torch.cat(logits, dim=1)


def _require_library(name: str) -> None:
    """With another library, what the mistake did could not be told from what the library does."""
    library, wanted = require_versions(), next(case.library for case in (*CASES, *OTHER_CASES) if case.name == name)
    if library is not wanted:
        help_ = f"pip install -r tools/oracle/{wanted.requirements} in another environment"
        sys.exit(f"error: {name} was made by transformers {wanted.value}, found {library.value}\nhelp: {help_}")


def _changed(wrong: torch.Tensor, right: torch.Tensor) -> Changed:
    largest, size = float((wrong - right).abs().max()), float(right.pow(2).mean().sqrt())
    flips = int((wrong.argmax(-1) != right.argmax(-1)).sum())
    return Changed(largest, largest / size, flips, right.shape[1])


if __name__ == "__main__":
    main()
