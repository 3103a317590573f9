"""Dumps what a golden case would compute if the model's implementation had one known mistake.

    python tools/oracle/mutate.py --case fixtures/golden/m2-gqa3-f32 --mistake rope_last_half --out dump.safetensors
    python tools/oracle/mutate.py --list

The dump looks like the case's expected.safetensors. Printed is by how much the logits differ from the case's; a mistake
that changes nothing in a case (tiled key heads where there is only one) is an error, and no dump is written.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from capturing import Capture
from m2_mistakes import MISTAKES
from m2_model import load
from model import KEPT_INPUTS, PRECISIONS, prepare_library
from safetensors import safe_open


def main() -> None:
    """Lists the mistakes, or makes one."""
    parser = argparse.ArgumentParser(description="Dumps a golden case as computed with one known mistake.")
    parser.add_argument("--list", action="store_true", help="list the mistakes and stop")
    parser.add_argument("--case", type=Path, help="the folder of a golden case")
    parser.add_argument("--mistake", choices=MISTAKES, help="the mistake to make")
    parser.add_argument("--out", type=Path, help="the dump to write, .safetensors or .npz")
    arguments = parser.parse_args()
    if arguments.list:
        width = max(map(len, MISTAKES))
        print("\n".join(f"{name:{width}}  {mistake.description}" for name, mistake in MISTAKES.items()))
    elif None in (arguments.case, arguments.mistake, arguments.out):
        parser.error("--case, --mistake and --out are needed, or --list")
    else:
        prepare_library()
        print(mutate(arguments.case, arguments.mistake, arguments.out))


@torch.no_grad()
def mutate(folder: Path, name: str, out: Path) -> str:
    """Writes the dump of case `folder` with mistake `name` to `out`, and says what it did to the logits."""
    case = json.loads((folder / "case.json").read_text())
    dtype = next(dtype for dtype, precision in PRECISIONS.items() if precision == case["precision"])
    model = load(folder / "model", dtype)
    with MISTAKES[name].inject(model), Capture(model, inputs=KEPT_INPUTS) as mistaken:
        model(torch.tensor([case["tokens"]]))
    with safe_open(folder / "expected.safetensors", "pt") as expected:
        right = expected.get_tensor("logits").float()
    wrong = mistaken.tensors["logits"].float()
    if torch.equal(wrong, right):
        unseen = f"error: {name} ({MISTAKES[name].description}) changes no logit of {case['model']}"
        sys.exit(f"{unseen}\nhelp: make it in another case")
    described = {key: case[key] for key in ("tokens", "model", "semantics", "precision")}
    mistaken.save(out, producer={"mistake": name}, **described)
    return f"{name} in {case['model']}: {_difference(wrong, right)}"


def _difference(wrong: torch.Tensor, right: torch.Tensor) -> str:
    largest, size = (wrong - right).abs().max(), right.pow(2).mean().sqrt()
    flips = int((wrong.argmax(-1) != right.argmax(-1)).sum())
    of_size = f"{largest / size:.1%} of their root mean square"
    return f"logits differ by up to {largest:.3g} ({of_size}), {flips} of {right.shape[1]} best tokens change"


if __name__ == "__main__":
    main()
