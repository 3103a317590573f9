"""Assertions whose message is the report, and the pages that they leave behind."""

import os
import re
from collections.abc import Callable
from typing import Any

from parity._calls import Dump, Path, verify
from parity._native import Report

# Takes a report and gives the path of the page that was written; none where none is wanted.
_keep: Callable[[Report], str] | None = None


def assert_parity(model: Path, dump: Dump | None = None, **options: Any) -> Report:
    """Demands that a dump is right: as `verify`, whose arguments it takes, and an error where the report fails.

    Returns:
        The report, which has no fault; `deny="suspicious"` demands that nothing is suspicious, `require="all"` that
        every operator was compared.

    Raises:
        AssertionError: a fault, or what counts as one; its message is the report as on a terminal.
        ParityError: as `verify`.
    """
    __tracebackhide__ = True
    return require(verify(model, dump, **options))


def require(report: Report) -> Report:
    """Demands that a report has no fault; the page of either is written, where pages are."""
    __tracebackhide__ = True
    page = _keep(report) if _keep is not None else None
    if not report.passed:
        raise AssertionError(f"{report}" + (f"\npage: {page}" if page else ""))
    return report


def keep_pages(folder: str | None) -> None:
    """From now on, writes the page of every report that is asserted into a folder, under the running test's name."""
    global _keep
    _keep = None if folder is None else lambda report: _write(folder, report)


def _write(folder: str, report: Report) -> str:
    """Writes a page, which appears only when it is complete."""
    os.makedirs(folder, exist_ok=True)
    test = os.environ.get("PYTEST_CURRENT_TEST", "parity").rsplit(" ", 1)[0]
    name = re.sub(r"[^\w.\-\[\]]+", "-", test)[-200:]
    number, path = 1, os.path.join(folder, f"{name}.html")
    while path in _written:
        number += 1
        path = os.path.join(folder, f"{name}.{number}.html")
    _written.add(path)
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(report.html())
    os.replace(unfinished, path)
    return path


# What this process has written: a second page of a name is numbered, one of an earlier run replaced.
_written: set[str] = set()
