"""Makes the golden cases: tiny checkpoints, and what the transformers library computes with them.

    python tools/oracle/make_golden.py --out fixtures/golden [--case NAME]…

Needs exactly the versions in requirements.txt. On one machine a rerun gives the same bytes; on another kind of CPU the
last bits may differ, which is why provenance.json names it. A case is a folder:

    model/                 the checkpoint; everything below was computed from these files, read back
    case.json              prompt, greedy tokens with their margins, semantics, precision, and measured properties
    expected.safetensors   the output of every module for the prompt, the logits, and the inputs in KEPT_INPUTS
    decode.safetensors     step.N.PATH of the step that is fed greedy token N − 1, counted from 0: logits and routers,
                           or, where the case says so, the output of every module
    provenance.json        seed, command, versions, machine, and the SHA-256 of each file of the case
"""

import argparse
import hashlib
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from m2_cases import CASES, Case
from m2_checkpoint import write_checkpoint
from m2_model import KEPT_INPUTS, PRECISIONS, GreedyDecoder, load, prepare_library
from m2_properties import properties, require_useful

sys.path.append(str(Path(__file__).parents[1] / "capture"))
from capture import Capture

SCHEMA = 1
"""Version of case.json and provenance.json."""

KEPT_OF_DECODE = ("logits", "*.mlp.gate*")
"""What each step of a decode keeps unless its case keeps all: with the experts chosen, the decode can be replayed."""

PACKAGES = ("huggingface_hub", "numpy", "safetensors", "tokenizers", "torch", "transformers")


def main() -> None:
    """Makes the cases that the command line names, by default all."""
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description="Makes the golden cases with the transformers library.")
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder in which each case gets a folder of its own"
    )
    parser.add_argument("--case", action="append", choices=names, help="only this case; may be repeated")
    arguments = parser.parse_args()
    _require_versions()
    prepare_library()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if arguments.case is None or case.name in arguments.case:
            _make_atomically(case, arguments.out)


def _require_versions() -> None:
    pins = (
        line.split("==")
        for line in Path(__file__).with_name("requirements.txt").read_text().splitlines()
        if "==" in line
    )
    wrong = [f"{name} {version(name)}, expected {pin}" for name, pin in pins if version(name) != pin]
    if wrong:
        sys.exit(f"error: found {'; '.join(wrong)}\nhelp: pip install -r tools/oracle/requirements.txt")


def _make_atomically(case: Case, out: Path) -> None:
    """A reader sees the case's old folder or its new one, never half of one."""
    with TemporaryDirectory(dir=out, prefix=f".{case.name}.") as temporary:
        folder = Path(temporary) / "new"
        (folder / "model").mkdir(parents=True)
        make(case, folder)
        if (out / case.name).exists():
            (out / case.name).rename(Path(temporary) / "old")
        folder.rename(out / case.name)
    size = sum(file.stat().st_size for file in (out / case.name).rglob("*") if file.is_file())
    print(f"{case.name}: {size / 1e6:.2f} MB")


@torch.no_grad()
def make(case: Case, folder: Path) -> None:
    """Writes all files of `case` into `folder`, which has an empty folder `model`."""
    write_checkpoint(case, folder / "model")
    model = load(folder / "model", case.computed)
    draw = torch.Generator().manual_seed(case.seed)
    prompt = torch.randint(case.sizes.vocab_size, (case.prompt_length,), generator=draw).tolist()

    decoder = GreedyDecoder(model)
    with Capture(model, inputs=KEPT_INPUTS) as prefill:
        decoder.feed(prompt)
    wanted = ("*",) if case.decode_sites else KEPT_OF_DECODE
    with Capture(model, step_prefix=True, first_step=1, include=wanted, inputs=KEPT_INPUTS) as steps:
        while len(decoder.tokens) < case.decode_length:
            decoder.feed(decoder.tokens[-1:])

    measured = properties(model, prefill.tensors, steps.tensors, decoder.margins)
    require_useful(case.name, measured)
    described = {"model": case.name, "semantics": "released", "precision": PRECISIONS[case.computed]}
    prefill.save(folder / "expected.safetensors", tokens=prompt, **described)
    steps.save(folder / "decode.safetensors", tokens=prompt + decoder.tokens[:-1], **described)
    _write_json(
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
    _write_json(folder / "provenance.json", _provenance(case, folder))


def _provenance(case: Case, folder: Path) -> dict[str, object]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    router = "float32 as stored; the library's loader had rounded it to the type of the activations"
    return {
        "schema": SCHEMA,
        "command": f"python tools/oracle/make_golden.py --out fixtures/golden --case {case.name}",
        "seed": case.seed,
        "layout": case.layout.value,
        "attention": "eager",
        "experts": "eager",
        "router": "float32 as stored" if case.computed is torch.float32 else router,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads(),
        },
        "sha256": {
            file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
        },
    }


def _write_json(path: Path, document: dict[str, object]) -> None:
    path.write_text(_json(document) + "\n")


def _json(value: object, indent: str = "") -> str:
    """JSON with an object's members on lines of their own and a list, however long, on one."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + "  "
    members = (f"{deeper}{json.dumps(key)}: {_json(member, deeper)}" for key, member in value.items())
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


if __name__ == "__main__":
    main()
