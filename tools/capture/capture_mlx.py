"""Writes what every module of an MLX model computed into one file that `parity verify` reads.

The sibling of `capture.py`, which must lie beside it, for Apple's MLX. It needs mlx, numpy and safetensors.

    from pathlib import Path
    import mlx.core as mx
    from mlx_lm.utils import load_model
    from capture_mlx import Capture

    model, _ = load_model(Path("MODEL"))
    with Capture(model) as c:
        model(mx.array([[9707, 11, 1879]]))
    c.save("dump.safetensors")

The same works around `mlx_lm.generate.generate_step` and with models of mlx_vlm. Names, and what the manifest says of
each call, are those of `capture.py`: a tensor is named after the module that returned it, by the module's path in the
MLX model; what the model itself returns is `logits`; a module that is called again, as the rotary embedding is for the
queries and then for the keys, is `NAME#1`; with more than one call, names begin with `step.N.`. `mlx_lm` feeds a prompt
in pieces, so there a step is a piece.

MLX has no hooks: for the `with` block, each module becomes an instance of a subclass of its own class whose call also
keeps the result. A function given to `mx.compile` calls no modules once compiled, so capture from the plain model.

Checked on a CPU with mlx_lm 0.32.2 (MiniMax-M2 and M3, a prompt at once and a generation) and mlx_vlm 0.7.10 (M3, with
images and without).
"""

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import mlx.core as mx
from capture import Recording
from mlx import nn
from mlx.utils import tree_flatten


class Capture(Recording):
    """Collects the outputs of all modules of `model` while the `with` block runs; `tensors` holds them by name.

    Args:
        model: the whole model, so that paths are those of its checkpoint.
        options: those of `Recording`. What is inside the routed experts is dropped by default: its rows are sorted by
            expert.
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__(**{"exclude": ("*.switch_mlp.*",), "again": ()} | options)
        self.model = model
        self._classes: list[tuple[nn.Module, type[nn.Module]]] = []

    def __enter__(self) -> "Capture":
        # Once each: a module may hang in several places, such as one activation shared by all layers.
        for path, module in {id(module): (path, module) for path, module in self.model.named_modules()}.values():
            self._classes.append((module, type(module)))
            module.__class__ = self._recording(path, type(module))
        return self

    def __exit__(self, *exception: object) -> None:
        for module, plain in self._classes:
            module.__class__ = plain
        self._classes.clear()

    def manifest(
        self, *, tokens: Any = None, producer: Mapping[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """As `Recording.manifest`, with what is known of the software."""
        return super().manifest(tokens=tokens, producer=self._describe() | dict(producer or {}), **fields)

    def _recording(self, path: str, plain: type[nn.Module]) -> type[nn.Module]:
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not path:
                tokens = next((x for x in (*args, *kwargs.values()) if isinstance(x, mx.array)), None)
                self.begin_call(first=_filled(kwargs.get("cache")), tokens=None if tokens is None else tokens.tolist())
            output = plain.__call__(module, *args, **kwargs)
            for index, value in enumerate(output if isinstance(output, (tuple, list)) else (output,)):
                value = getattr(value, "logits", value)
                if isinstance(value, mx.array):
                    # A new handle on the value: `x += y` makes the old one stand for the sum.
                    self.keep((path or "logits") + (f".{index}" if index else ""), mx.array(value))
            return output

        return type(plain.__name__, (plain,), {"__call__": call})

    def _describe(self) -> dict[str, Any]:
        library = type(self.model).__module__.split(".")[0]
        parameters = tree_flatten(self.model.parameters())
        known = {
            "library": library,
            "version": getattr(sys.modules.get(library), "__version__", None) or _version(library),
            "mlx": _version("mlx"),
            "device": str(mx.default_device()),
            "dtype": str(parameters[0][1].dtype).removeprefix("mlx.core.") if parameters else None,
        }
        return {key: value for key, value in known.items() if value is not None}


def _filled(cache: Any) -> int:
    """How many places of a cache are filled; a layer's may be a list of caches."""
    while cache is not None and not hasattr(cache, "offset"):
        cache = next(iter(getattr(cache, "caches", cache)), None)
    if cache is None:
        return 0
    # Of a batch each row has its own, from the first that is no padding on.
    offset = cache.offset
    return int((offset + cache.left_padding).max()) if isinstance(offset, mx.array) and offset.size > 1 else int(offset)


def _version(package: str) -> str | None:
    try:
        return version(package.replace("_", "-"))
    except PackageNotFoundError:
        return None
