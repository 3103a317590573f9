"""What tests share: built-in cases, whose right values are the transformers library's."""

from pathlib import Path

import numpy as np
import pytest

pytest_plugins = ["pytester"]

CASE = "m2-gqa3-f32"
BF16 = "m2-sharded-bf16"
GOLDEN = Path(__file__).parents[3] / "fixtures" / "golden"


@pytest.fixture(scope="session")
def dump() -> Path:
    """The file of a right run in f32, with its manifest."""
    return GOLDEN / CASE / "expected.safetensors"


@pytest.fixture(scope="session")
def tensors() -> dict[str, np.ndarray]:
    """The values of that run."""
    return read(GOLDEN / CASE / "expected.safetensors")


@pytest.fixture
def wrong(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same, of which one operator's are a tenth too large."""
    name = "model.layers.1.self_attn.q_norm"
    return tensors | {name: tensors[name] * np.float32(1.1)}


def read(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a `.safetensors` file: a length of 8 bytes, as many of JSON, data."""
    import json

    import ml_dtypes

    types = {"F32": np.float32, "I64": np.int64, "BF16": ml_dtypes.bfloat16}
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__", None)

    def tensor(entry: dict) -> np.ndarray:
        begin, behind = entry["data_offsets"]
        return np.frombuffer(data[end + begin : end + behind], types[entry["dtype"]]).reshape(entry["shape"])

    return {name: tensor(entry) for name, entry in header.items()}
