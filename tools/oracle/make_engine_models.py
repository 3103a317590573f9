"""Makes the checkpoints and prompts of `fixtures/golden-engines/cases`, which other engines than transformers take.

    python tools/oracle/make_engine_models.py --out fixtures/golden-engines/cases

A case is a folder: `model/`, a checkpoint in the hub's format; `case.json`, its prompt; `pixels.safetensors`, where the
prompt shows an image. What engines compute from it is made by the scripts in `tools/engines`.
"""

import pinned  # isort: skip
from pathlib import Path

from case_folder import write_case
from engine_cases import CASES
from filled import filled
from provenance import record


def main() -> None:
    """Makes them all."""
    filled("Makes the checkpoints that other engines compute dumps from.", make)


def make(folder: Path) -> None:
    """Writes all cases into `folder`, which is empty."""
    for case in CASES:
        write_case(case, folder / case.name)
    record(folder, "make_engine_models.py --out fixtures/golden-engines/cases")


if __name__ == "__main__":
    main()
