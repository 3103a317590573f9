"""Makes the dump of mlx-vlm, which is wrong: blocks are chosen by the maximum over all index heads.

    python tools/engines/make_mlx_vlm.py --cases fixtures/golden-engines/cases --out fixtures/golden-engines/mlx-vlm

Nothing stands in for what is computed; packages that only serve or read images are left out. Needs
requirements-mlx-vlm.txt.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

sys.path.insert(0, str(Path(__file__).parent.parent / "capture"))

from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

LEFT_OUT = ("miniaudio", "mlx_audio", "cv2", "datasets", "llguidance", "uvicorn", "fastapi", "starlette", "requests")
"""Packages that mlx-vlm imports, and that no part of a forward pass needs."""


class Absent(MetaPathFinder, Loader):
    """Gives empty modules in their places."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Of these packages and of what is in them."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in (*LEFT_OUT, "torch") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Without anything in it."""
        module = ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = absent
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def absent(name: str) -> MagicMock:
    """Anything that such a module is asked for, but for what Python itself asks."""
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock()


sys.meta_path.append(Absent())

import mlx.core as mx
from capture_mlx import Capture
from making import FIRST_AND_EXPERTS, Made, arguments, prompt, record
from mlx_vlm.utils import load_model


def main() -> None:
    """Makes it."""
    given = arguments("Makes the dump of mlx-vlm.")
    model = load_model(given.cases / "vision" / "model", lazy=False)
    model.set_dtype(mx.float32)
    with Capture(model, exclude=FIRST_AND_EXPERTS) as capture:
        model(mx.array([prompt(given.cases, "m3")]))
    capture.save(given.out / "m3-f32.safetensors")
    what = "a prompt at once, in float32; all groups attend to the blocks of the largest score of any index head"
    made = [Made("m3-f32.safetensors", "vision", what, "model.layers.1.self_attn.o_proj")]
    record(given.out, "make_mlx_vlm.py", ("mlx", "mlx-vlm"), made)


if __name__ == "__main__":
    main()
