"""Puts dumps that transformers writes, in every way in which people run it, before `parity verify`, with no flag but the
pixels that a prompt shows, and that what is suspicious counts as a fault.

    python tools/oracle/sweep.py --parity target/release/parity --out DIR [--only 'm3/bf16/*']

The models are small and random, the dumps are made by `tools/capture`. Every dump is right, so that any that does not
pass is a false alarm: exit code 1, and the dump and the report stay in DIR/alarms. What has passed is written down in
DIR/passed.txt and is not run again, so that a sweep that was stopped goes on; remove that file after a change of the
program.
"""

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from model import prepare_library
from sweep_cells import Cell, cells
from sweep_dumps import make

VERDICTS = {0: "passed", 1: "blamed", 2: "refused"}
"""By the program's exit code."""


class Judged(NamedTuple):
    """What the program said of a dump."""

    cell: Cell
    prompt: int
    verdict: str


def main() -> None:
    """Sweeps the cells that the command line names, by default all."""
    parser = argparse.ArgumentParser(description="Looks for right dumps of transformers that `parity verify` blames.")
    parser.add_argument("--parity", type=Path, default=Path("target/release/parity"), help="the program")
    parser.add_argument("--out", type=Path, required=True, help="a folder for models, alarms and what has passed")
    parser.add_argument("--only", default="*", help="a pattern of cells: FAMILY/TYPE/ATTENTION/EXPERTS/MODE/SCOPE")
    parser.add_argument("--prompts", type=int, help="so many prompts of each cell, at most")
    parser.add_argument("--list", action="store_true", help="list the cells, and stop")
    arguments = parser.parse_args()
    if arguments.prompts is not None and arguments.prompts < 1:
        parser.error(f"--prompts {arguments.prompts}: expected 1 or more")
    wanted = [cell for cell in cells() if fnmatchcase(str(cell), arguments.only)]
    if not wanted:
        parser.error(f"--only {arguments.only}: no cell has such a name, expected a pattern such as m3/bf16/*")
    if arguments.list:
        print("\n".join(map(str, wanted)))
        return
    if not arguments.parity.is_file():
        parser.error(f"--parity {arguments.parity}: is not there; cargo build --release makes target/release/parity")
    prepare_library()
    todo = [(cell, prompt) for cell in wanted for prompt in range(cell.prompts)[: arguments.prompts]]
    sys.exit(_sweep(todo, arguments.parity.resolve(), arguments.out))


def _sweep(todo: list[tuple[Cell, int]], parity: Path, out: Path) -> int:
    """Runs these prompts, and prints a table of their cells; 1 if there was an alarm."""
    (out / "alarms").mkdir(parents=True, exist_ok=True)
    passed = out / "passed.txt"
    before = set(passed.read_text().split()) if passed.exists() else set()
    verdicts: dict[Cell, list[str]] = defaultdict(list)
    with passed.open("a") as log:
        for done, (cell, prompt, verdict) in enumerate(_judged(todo, before, parity, out), 1):
            verdicts[cell].append(verdict)
            if verdict == "passed" and f"{cell}:{prompt}" not in before:
                print(f"{cell}:{prompt}", file=log, flush=True)
            elif verdict != "passed":
                print(f"{cell}:{prompt}: {verdict}", file=sys.stderr)
            if done % 50 == 0:
                print(f"{done} of {len(todo)}", file=sys.stderr)
    width = max(len(str(cell)) for cell in verdicts)
    for cell, of_cell in sorted(verdicts.items()):
        others = sorted({verdict for verdict in of_cell if verdict != "passed"})
        print(f"{cell!s:{width}}  {of_cell.count('passed')}/{len(of_cell)} {' '.join(others)}".rstrip())
    alarms = sum(verdict != "passed" for of_cell in verdicts.values() for verdict in of_cell)
    print(f"{len(todo)} right dumps, {alarms} alarms")
    return int(alarms > 0)


def _judged(todo: list[tuple[Cell, int]], before: set[str], parity: Path, out: Path) -> Iterator[Judged]:
    """What the program says of each: dumps are made one after the other, and judged beside one another."""
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool:
        running: set[Future[Judged]] = set()
        for cell, prompt in todo:
            if f"{cell}:{prompt}" in before:
                yield Judged(cell, prompt, "passed")
                continue
            dump = out / "alarms" / f"{str(cell).replace('/', '.')}.{prompt}.safetensors"
            given = make(cell, prompt, out / "models", dump)
            running.add(pool.submit(_judge, cell, prompt, parity, given, dump))
            if len(running) > workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in running)


def _judge(cell: Cell, prompt: int, parity: Path, given: list[str], dump: Path) -> Judged:
    """Runs the program; what has passed is removed, and of what has not the report is kept."""
    command = [parity, "verify", *given, "--quiet", "--deny", "suspicious"]
    ended = subprocess.run(command, capture_output=True, text=True)
    verdict = VERDICTS.get(ended.returncode, f"exit code {ended.returncode}")
    report = dump.with_suffix(".txt")
    if verdict == "passed":
        dump.unlink()
        report.unlink(missing_ok=True)
    else:
        report.write_text(f"parity verify {' '.join(given)}\n{ended.stdout}{ended.stderr}")
    return Judged(cell, prompt, verdict)


if __name__ == "__main__":
    main()
