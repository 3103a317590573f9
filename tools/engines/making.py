"""What the makers of engines' dumps share: where checkpoints are, what stands for absent packages, what is recorded."""

import argparse
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

SCHEMA = 1
"""Version of provenance.json."""

FIRST_AND_EXPERTS = ("*.layers.0.*", "*rope", "*.experts.*", "*.switch_mlp.*")
"""What the dumps of vLLM and MLX leave out: all inside the first layer, which says no more of an engine than the next
one's, rotated values, which are wide, and rows of single experts. llama.cpp's leave out the first layer by names of
its own; SGLang's have it, because its recipe leaves out rows of single experts alone."""


@dataclass(frozen=True)
class Made:
    """One dump."""

    file: str
    case: str
    """The folder of its checkpoint."""
    what: str
    """How the engine ran."""
    fault: str | None = None
    """Where it is wrong, if it is: the first operator of which the outputs are not those of the released model."""


class Absent(MetaPathFinder, Loader):
    """Gives modules of one type in the places of packages, and of all that is in them."""

    def __init__(self, packages: Sequence[str], module: type[ModuleType]) -> None:
        self.packages, self.module = packages, module

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Of these packages alone."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Without anything in it."""
        return self.module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def arguments(description: str, **folders: str) -> argparse.Namespace:
    """The command line: `--cases`, the checkpoints' folder, `--out`, the engine's, and others with their help."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=Path, required=True, help="fixtures/golden-engines/cases")
    parser.add_argument("--out", type=Path, required=True, help="fixtures/golden-engines/ENGINE, which is filled")
    for name, help_ in folders.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=help_)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def each_alone(description: str, dumps: Mapping[Made, Sequence[str]], one: Callable[..., None]) -> argparse.Namespace:
    """The command line, when `one(CASES, FILE, *words)` has made each of `dumps`, which are given with their words.

    Each is made by this script in a process of its own, because such an engine is set up once in a process.
    """
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
        sys.exit()
    given = arguments(description)
    for made, words in dumps.items():
        script = [sys.executable, sys.argv[0], "--one", given.cases, given.out / made.file, *words]
        subprocess.run(script, check=True)
    return given


def prompt(cases: Path, case: str) -> list[int]:
    """The tokens of a case."""
    return json.loads((cases / case / "case.json").read_text())["tokens"]


def record(
    out: Path,
    script: str,
    packages: Sequence[str],
    dumps: Sequence[Made],
    stand_ins: Sequence[str] = (),
    options: Sequence[str] = (),
) -> None:
    """Writes provenance.json: how the dumps were made, what each shows, and their SHA-256.

    `options` are those of the script beside `--cases` and `--out`, as anyone would type them.
    """
    folders = ("--cases", "fixtures/golden-engines/cases", "--out", f"fixtures/golden-engines/{out.name}")
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "command": " ".join(("python", f"tools/engines/{script}", *folders, *options)),
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "stand_ins": list(stand_ins),
        "dumps": [asdict(dump) for dump in dumps],
        "sha256": {dump.file: hashlib.sha256((out / dump.file).read_bytes()).hexdigest() for dump in dumps},
    }
    (out / "provenance.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
