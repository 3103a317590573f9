"""Which software makes the files, and what is recorded of it."""

import hashlib
import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from cases import Library
from pinned import PINS

SCHEMA = 1
"""Version of case.json, of provenance.json and of indices."""

PACKAGES = ("huggingface_hub", "numpy", "safetensors", "tokenizers", "torch", "transformers")


def require_versions() -> Library:
    """Which of the libraries this is; every version must be that of its requirements."""
    found = version("transformers")
    library = next((library for library in Library if library.value == found), Library.V5_23)
    require_pins(library.requirements)
    return library


def require_pins(requirements: str) -> None:
    """Every version that a file of requirements, or one that it includes, pins must be the one found."""
    lines = Path(__file__).with_name(requirements).read_text().splitlines()
    for included in (line.removeprefix("-r ") for line in lines if line.startswith("-r ")):
        require_pins(included)
    pins = (line.split("==") for line in lines if "==" in line)
    wrong = [f"{name} {version(name)}, expected {pin}" for name, pin in pins if version(name) != pin]
    if wrong:
        sys.exit(f"error: found {'; '.join(wrong)}\nhelp: pip install -r tools/oracle/{requirements}")


def software(others: Sequence[str] = ()) -> dict[str, object]:
    """Python, packages, `others` among them, and machine, for provenance.json."""
    return {
        "python": platform.python_version(),
        "packages": {name: version(name) for name in (*PACKAGES, *others)},
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "threads": torch.get_num_threads(),
        },
        "environment": PINS,
    }


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in `folder`, by its path there."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def record(folder: Path, command: str, others: Sequence[str] = (), **said: object) -> None:
    """Writes a folder's provenance.json: the command, the software with `others`, what is `said`, and the hashes.

    The command is as anyone would type it in a checkout, wherever the folder is made.
    """
    made_by = {"schema": SCHEMA, "command": f"python tools/oracle/{command}", **software(others)}
    write_json(folder / "provenance.json", {**made_by, **said, "sha256": hashes(folder)})


def write_index(folder: Path, dumps: list[dict[str, object]]) -> None:
    """Writes a folder's index.json: what each dump is."""
    write_json(folder / "index.json", {"schema": SCHEMA, "dumps": dumps})


def write_json(path: Path, document: dict[str, object]) -> None:
    """Writes an object with its members on lines of their own, and a list, unless of objects, on one."""
    path.write_text(_json(document) + "\n")


def _json(value: object, indent: str = "") -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        deeper = indent + "  "
        return "[\n" + ",\n".join(f"{deeper}{json.dumps(item, ensure_ascii=False)}" for item in value) + f"\n{indent}]"
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    deeper = indent + "  "
    members = (f"{deeper}{json.dumps(key)}: {_json(member, deeper)}" for key, member in value.items())
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"
