"""Tensors of numpy, torch and others as the library takes them: bytes in C order, where they are if they are so."""

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from parity._errors import failed

if TYPE_CHECKING:
    import numpy as np
    import torch

Lent = tuple[str, str, list[int], "np.ndarray[Any, Any]"]

# The library's types, by what numpy and ml_dtypes call them; torch's names are those of `TORCH`, too.
TYPES = {
    "bool": "bool",
    "uint8": "u8",
    "int8": "i8",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e5m2": "f8_e5m2",
    "float8_e8m0fnu": "f8_e8m0",
    "uint16": "u16",
    "int16": "i16",
    "float16": "f16",
    "bfloat16": "bf16",
    "uint32": "u32",
    "int32": "i32",
    "float32": "f32",
    "uint64": "u64",
    "int64": "i64",
    "float64": "f64",
}

HELP_TYPES = "expected one of " + ", ".join(TYPES)


def dump_of(given: Any, manifest: Mapping[str, Any] | str | None = None) -> Any:
    """A dump as the library takes it: a path, or a list of lent tensors with the text of their manifest.

    Raises:
        ParityError: `given` is neither a path nor a mapping of names to tensors, or a tensor cannot be lent.
    """
    if given is None or isinstance(given, (str, os.PathLike)):
        if manifest is not None:
            raise failed("manifest: the dump is a file", "leave it out: a file carries its own, or has it beside it")
        return None if given is None else os.fspath(given)
    if not isinstance(given, Mapping):
        expected = "expected a path, or a mapping of names to tensors"
        help = "give {name: tensor, …}, names as transformers names modules"
        raise failed(f"dump: {expected}, found {_kind(given)}", help)
    text = json.dumps(manifest) if isinstance(manifest, Mapping) else manifest
    return [lend(name, value) for name, value in given.items()], text


def lend(name: str, value: Any) -> Lent:
    """A tensor's name, type and shape, and its bytes as a 1-D array of numpy's, which shares its memory where it can.

    Not shared, but copied, is what is not contiguous, not in the processor's memory, or not in little-endian order.
    Gradients are left aside.

    Raises:
        ParityError: it is no tensor, has no values, or has a type that the library does not read.
    """
    import numpy as np

    if not isinstance(name, str):
        raise failed(f"names are text, found {name!r}", "name tensors as transformers names modules")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_torch(name, value, torch)
    array = value if isinstance(value, np.ndarray) else _array(name, value)
    if isinstance(array, np.ma.MaskedArray):
        raise failed(f"{name}: a masked array, whose values are not all meant", "give array.filled(value)")
    if array.dtype.name not in TYPES:
        raise failed(f"{name}: values of type {array.dtype}", f"{HELP_TYPES}: convert it with .astype(…)")
    shape, dtype = list(array.shape), TYPES[array.dtype.name]
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return name, dtype, shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _of_torch(name: str, tensor: "torch.Tensor", torch: Any) -> Lent:
    """The same of a tensor of torch's."""
    dtype, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
    if dtype not in TYPES:
        raise failed(f"{name}: values of type {dtype}", f"{HELP_TYPES}: convert it with .to(torch.float32)")
    if hasattr(tensor, "full_tensor"):
        raise failed(f"{name}: a part of a distributed tensor", "give tensor.full_tensor()")
    if tensor.layout is not torch.strided:
        raise failed(f"{name}: values in layout {tensor.layout}", "give tensor.to_dense()")
    if tensor.device.type == "meta":
        help = "run the model on a device that computes"
        raise failed(f"{name}: a tensor on the meta device, which has no values", help)
    try:
        plain = tensor.detach().cpu().resolve_neg().contiguous()
        # numpy has neither bfloat16 nor torch's 8-bit floats: a view as bytes has what they have.
        return name, TYPES[dtype], shape, plain.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError) as error:  # No memory of its own, as where a function is traced.
        problem = f"{name}: {_kind(tensor)} has no values that can be looked at: {error}"
        raise failed(problem, "give a copy of it, made outside of a compiled or traced function") from error


def _array(name: str, value: Any) -> "np.ndarray[Any, Any]":
    """What has values that numpy can look at: by the array or the DLPack protocol, or a buffer."""
    import numpy as np

    protocols = ("__array__", "__array_interface__", "__dlpack__", "__buffer__")
    is_buffer = isinstance(value, (memoryview, bytearray))
    if not is_buffer and not any(hasattr(value, protocol) for protocol in protocols):
        raise failed(f"{name}: {_kind(value)} is no tensor", "give an array of numpy's or a tensor of torch's")
    try:
        by_array = is_buffer or hasattr(value, "__array__") or not hasattr(value, "__dlpack__")
        return np.asarray(value) if by_array else np.from_dlpack(value)
    except Exception as error:  # Each library has its own.
        problem = f"{name}: {_kind(value)} cannot be read as an array: {error}"
        raise failed(problem, "copy it to the processor's memory, or give np.asarray(…) of it in float32") from error


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
