"""What the makers of engines' dumps share: where they find checkpoints, and what they record."""

import argparse
import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

SCHEMA = 1
"""Version of provenance.json."""

FIRST_AND_EXPERTS = ("*.layers.0.*", "*rope", "*.experts.*", "*.switch_mlp.*")
"""What dumps leave out: all inside the first layer, which says no more of an engine than the next one's, rotated values,
which are wide, and rows of single experts."""


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


def arguments(description: str) -> argparse.Namespace:
    """The command line: `--cases`, the checkpoints' folder, and `--out`, the engine's."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=Path, required=True, help="fixtures/golden-engines/cases")
    parser.add_argument("--out", type=Path, required=True, help="fixtures/golden-engines/ENGINE, which is filled")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def prompt(cases: Path, case: str) -> list[int]:
    """The tokens of a case."""
    return json.loads((cases / case / "case.json").read_text())["tokens"]


def record(
    out: Path, script: str, packages: Sequence[str], dumps: Sequence[Made], stand_ins: Sequence[str] = ()
) -> None:
    """Writes provenance.json: how the dumps were made, what each shows, and their SHA-256."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "command": f"python tools/engines/{script} --cases fixtures/golden-engines/cases "
        f"--out fixtures/golden-engines/{out.name}",
        "python": platform.python_version(),
        "packages": {package: version(package) for package in packages},
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "stand_ins": list(stand_ins),
        "dumps": [asdict(dump) for dump in dumps],
        "sha256": {dump.file: hashlib.sha256((out / dump.file).read_bytes()).hexdigest() for dump in dumps},
    }
    (out / "provenance.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
