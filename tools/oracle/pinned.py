"""Pins what makes torch's results depend on the processor; imported before torch, which reads it when it is loaded.

A sum's order, and with it the last bits, follows from the instructions that a library chooses for the processor that it
finds. With these every x86-64 processor that has AVX2 gives the same bytes, Intel's and AMD's.
"""

import os
import sys

PINS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "OMP_NUM_THREADS": "1",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
"""Of torch's own kernels, of MKL (the only branch that is one for processors of all vendors), of oneDNN; one thread."""

if "torch" in sys.modules:
    raise ImportError("pinned must be imported before torch, which has chosen its instructions already")
os.environ.update(PINS)
