"""Makes the dump of mlx-vlm, which is wrong: blocks are chosen by the maximum over all index heads.

    python tools/engines/make_mlx_vlm.py --cases fixtures/golden-engines/cases --out fixtures/golden-engines/mlx-vlm

Nothing stands in for what is computed; packages that only serve or read images, and torch, are left out where they are
not there. Needs requirements-mlx-vlm.txt.
"""

import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

from making import FIRST_AND_EXPERTS, Absent, Made, arguments, prompt, record

sys.path.insert(0, str(Path(__file__).parent.parent / "capture"))

LEFT_OUT = (
    "cv2",
    "datasets",
    "fastapi",
    "llguidance",
    "miniaudio",
    "mlx_audio",
    "requests",
    "starlette",
    "torch",
    "uvicorn",
)
"""Packages that mlx-vlm imports, torch among them, and that no part of a forward pass needs."""


class Package(ModuleType):
    """Such a package: it has anything that is asked for, but for what Python itself asks."""

    __path__: list[str] = []

    def __getattr__(self, member: str) -> MagicMock:
        if member.startswith("__"):
            raise AttributeError(member)
        return MagicMock()


sys.meta_path.append(Absent(LEFT_OUT, Package))

import mlx.core as mx
from capture_mlx import Capture
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
