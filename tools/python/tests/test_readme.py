"""The README's examples run, but for the one that needs torch."""

import json
import re
from pathlib import Path

import parity
import pytest
from conftest import CASE, GOLDEN

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "parity.watch" not in block]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_runs(block, dump, tensors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("dump.safetensors", "mine.safetensors"):
        (tmp_path / name).symlink_to(dump)
    x, y = (tensors[f"model.layers.0.{name}"] for name in ("self_attn", "mlp"))
    ids = json.loads((GOLDEN / CASE / "case.json").read_text())["tokens"]
    given = {"parity": parity, "x": x, "y": y, "ids": ids, "values": tensors, "my_engine": lambda ids: tensors}
    exec(block.replace('"MODEL"', repr(CASE)), given)
    if "test_port" in given:
        given["test_port"](parity.assert_parity)
        given["test_model"]()
