"""The command line of what makes a folder as a whole."""

import argparse
from collections.abc import Callable
from pathlib import Path

from provenance import require_versions
from whole import replacing


def filled(what: str, make: Callable[..., None], require: Callable[[], object] = require_versions, **read: str) -> None:
    """Fills the folder `--out`; `read` are the folders that are read, with their help, and options of these names.

    `make` is called with their paths, and as `folder` with one that is empty and takes the place of `--out` when it is
    filled; before that, `require` refuses other versions than those that are pinned.
    """
    parser = argparse.ArgumentParser(description=what)
    for name, help_ in read.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=help_)
    parser.add_argument("--out", type=Path, required=True, help="the folder to make, or to replace")
    given = vars(parser.parse_args())
    require()
    with replacing(given.pop("out")) as folder:
        make(folder=folder, **given)


def of_cases(what: str, make: Callable[[Path, Path], None]) -> None:
    """The same of what is made from golden cases, which `make(golden, folder)` reads."""
    filled(what, make, golden="the folder of the golden cases")
