"""Folders that are there whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which is then put in the place of `folder`, or nowhere if filling it fails.

    A reader sees the old folder or the new one, never half of one.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(Path(temporary) / "old")
        new.rename(folder)
