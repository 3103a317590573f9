"""A function of one's own, asked in what order it adds and where it rounds."""

import sys
from collections.abc import Callable
from typing import Any

from parity import _native
from parity._errors import failed
from parity._native import Probe
from parity._tensors import TYPES

KINDS = ("float64", "float32", "float16", "bfloat16")

HELP_TYPES = "give " + ", ".join(KINDS) + ", or one of torch's, such as torch.bfloat16"


def probe(
    f: Callable[..., Any],
    kind: str,
    *,
    dtype: Any = "float32",
    size: int | None = None,
    precision: str | None = None,
    device: Any = None,
) -> Probe:
    """Asks a function in what order it adds, in what arithmetic, and where it rounds, by crafted inputs.

        found = parity.probe(torch.matmul, "product", dtype=torch.bfloat16, precision="transformers_bf16")
        print(found)
        parity.verify("MODEL", "dump.safetensors", precision=found.precision)

    Args:
        f: the function, called some hundred times. What it is given and has to give, by kind, where T is `size`:
            "product": a [64, T], b [T, 16] → a·b [64, 16]
            "sum": x [64, T] → [64], the sum of each row
            "norm": x [64, T], w [T] → RMSNorm(x)·w, or ·(1 + w), [64, T]
            "add_norm": x [64, T], y [64, T], w [T] → RMSNorm(x + y)·w, or ·(1 + w), [64, T]
            "softmax": x [64, T] → the softmax of each row [64, T]
            "attention": q [8, 1, 64], k [8, T, 64], v [8, T, 64] → softmax(q·kᵀ/√64)·v [8, 1, 64], without a mask
        kind: one of these.
        dtype: of the arrays: one of numpy's (bfloat16 by ml_dtypes), or of torch's, whose tensors are then given.
        size: terms of a sum, T; libraries add more and fewer terms in other orders. Of attention a power of two.
        precision: what is known already, as in `verify`; what is found is laid over it, so that one function's
            `.precision` can be given with the next.
        device: torch's, where tensors are to be.

    Returns:
        What is told: text by print, the order of additions as `.order`, and `.precision` for `verify`. What cannot be
        told is said; no guess is made.

    Raises:
        ParityError: no such kind or type, a size that it cannot have, or values of another shape than the kind's.
        Exception: whatever `f` raises.
    """
    make = _maker(dtype, device)

    def call(inputs: list[tuple[list[int], bytes]]) -> tuple[list[int], bytes, str]:
        return _told(f(*(make(shape, data) for shape, data in inputs)))

    question = {"kind": kind, "dtype": TYPES[_name(dtype)], "size": size, "precision": precision}
    return _native.probe(call, question)


def _name(dtype: Any) -> str:
    """A type's name, numpy's or torch's."""
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        name = str(dtype).removeprefix("torch.")
    elif isinstance(dtype, str):
        name = dtype
    else:
        try:
            name = "None" if dtype is None else np.dtype(dtype).name
        except TypeError:
            name = repr(dtype)
    if name not in KINDS:
        raise failed(f"dtype: {name}", HELP_TYPES)
    return name


def _maker(dtype: Any, device: Any) -> Callable[[list[int], bytes], Any]:
    """What makes arrays of float64's bytes."""
    import numpy as np

    name, torch = _name(dtype), sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):

        def tensor(shape: list[int], data: bytes) -> Any:
            values = torch.frombuffer(bytearray(data), dtype=torch.float64)
            return values.reshape(shape).to(device=device, dtype=dtype)

        return tensor
    if device is not None:
        raise failed("device: arrays of numpy's have none", "give dtype as one of torch's, such as torch.bfloat16")
    if name == "bfloat16":
        try:
            from ml_dtypes import bfloat16 as own
        except ImportError as error:
            raise failed("dtype: numpy alone has no bfloat16", "pip install ml_dtypes, or give torch.bfloat16") from error
    else:
        own = np.dtype(name)
    return lambda shape, data: np.frombuffer(data, "<f8").reshape(shape).astype(own)


def _told(value: Any) -> tuple[list[int], bytes, str]:
    """A result's shape, its values as float64's bytes, and its type."""
    import numpy as np

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        name, value = str(value.dtype).removeprefix("torch."), value.detach().to("cpu", torch.float64).numpy()
    else:
        value = np.asarray(value)
        name = value.dtype.name
    if name not in KINDS:
        raise failed(f"the function gave values of type {name}", HELP_TYPES)
    wide = np.ascontiguousarray(value, "<f8").reshape(np.shape(value))
    return list(wide.shape), wide.tobytes(), TYPES[name]
