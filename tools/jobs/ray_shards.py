#!/usr/bin/env python3
"""Verifies a dump in N shards on a Ray cluster, and merges them:

    pip install ray
    python tools/jobs/ray_shards.py --shards 16 --json report.json -- MODEL DUMP --tokens @prompt.json

What stands behind `--` goes to `parity verify`. Every node needs `parity` in its path, or at --parity, and sees the model, the
dump and the prompt under the same names; what shards find comes back through Ray. A shard whose worker dies is done again, on
another one; with `--resume DIR` behind `--`, a folder that all nodes see, it goes on where it was. The exit code is that of
`parity merge`: 0 without a fault, 1 with one, 2 for bad usage or unreadable input.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import ray


@ray.remote(max_retries=5)
def shard(parity: str, arguments: list[str], number: int, shards: int) -> tuple[int, str, str]:
    """Exit code, the shard's file and what was said."""
    command = [parity, "verify", *arguments, "--shard", f"{number}/{shards}", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode < 0:  # by a signal, as the kernel's when memory runs out: not the shard's own doing
        sys.exit(1)
    return done.returncode, done.stdout, done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, required=True, help="how many shards")
    parser.add_argument("--cpus", type=float, default=1, help="CPUs that a shard is given")
    parser.add_argument("--address", help="the cluster's, such as auto; without it, one on this machine")
    parser.add_argument("--parity", default="parity", help="the program")
    parser.add_argument("--json", help="the report as JSON")
    parser.add_argument("--html", help="the report as a page")
    parser.add_argument("verify", nargs="+", help="what `parity verify` is given")
    asked = parser.parse_args()

    ray.init(address=asked.address, log_to_driver=False)
    ask = shard.options(num_cpus=asked.cpus)
    waiting = {
        ask.remote(asked.parity, asked.verify, number, asked.shards): number for number in range(1, asked.shards + 1)
    }
    with tempfile.TemporaryDirectory() as folder:
        files = []
        while waiting:
            [done], _ = ray.wait(list(waiting))
            number = waiting.pop(done)
            code, found, said = ray.get(done)
            sys.stderr.write(said)
            if code != 0:
                print(f"shard {number} of {asked.shards} ended with exit code {code}", file=sys.stderr)
                return 2
            files.append(pathlib.Path(folder, f"{number}.json"))
            files[-1].write_text(found)
        reports = [[option, path] for option, path in (("--json", asked.json), ("--html", asked.html)) if path]
        return subprocess.run([asked.parity, "merge", *map(str, files), *sum(reports, [])]).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ray.exceptions.RayError) as error:  # 1, which Python ends with, would be a fault.
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
