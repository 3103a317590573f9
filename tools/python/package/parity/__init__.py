"""Proves fast implementations of MiniMax-M2 and M3 right, or names the operator that is wrong.

    import parity

    report = parity.verify("MODEL", "dump.safetensors", tokens=[1, 2, 3])
    report.passed, report.verdict, report.faults[:1]

`verify` judges a dump, or tensors in memory, next to the reference; `watch` captures a PyTorch model while it runs and
judges what it computed; `diagnose` names the mistake; `diff` puts two dumps side by side; `run` is the reference
itself, and `reference(MODEL).run(tokens)` the same of one prompt after another. `probe` asks a function in what order
it adds, and where it rounds. `assert_parity` fails a test with the report. Whatever keeps one of them from an answer is
a `ParityError`.
"""

from parity._asserting import assert_parity
from parity._calls import diagnose, diff, run, verify
from parity._native import Diagnosis, Difference, Mistake, Pair, ParityError, Probe, Report, Site
from parity._probing import probe
from parity._reference import Reference, reference
from parity._watching import Watch, watch

__all__ = [
    "Diagnosis",
    "Difference",
    "Mistake",
    "Pair",
    "ParityError",
    "Probe",
    "Reference",
    "Report",
    "Site",
    "Watch",
    "assert_parity",
    "diagnose",
    "diff",
    "probe",
    "reference",
    "run",
    "verify",
    "watch",
]
