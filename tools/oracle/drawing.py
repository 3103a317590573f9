"""Tensors to draw, by their names on the hub."""

import math
from typing import NamedTuple

import torch


class Drawn(NamedTuple):
    """A tensor's hub name, shape, mean and standard deviation."""

    name: str
    shape: tuple[int, ...]
    mean: float
    deviation: float


def matrix(name: str, outputs: int, inputs: int, gain: float) -> Drawn:
    """A matrix that turns inputs of unit size into outputs of size `gain`."""
    return Drawn(name, (outputs, inputs), 0.0, gain / math.sqrt(inputs))


DTYPE_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
"""What a config.json calls the types of stored weights."""
