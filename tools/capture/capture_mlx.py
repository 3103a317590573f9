"""Writes what every module of an MLX model computed into one file that `parity verify` reads.

The sibling of `capture.py` for Apple's MLX, and as free of company: copy it next to your script. It needs mlx alone.

    from pathlib import Path
    import mlx.core as mx
    from mlx_lm.utils import load_model
    from capture_mlx import Capture

    tokens = [9707, 11, 1879]
    model, _ = load_model(Path("MODEL"))
    with Capture(model) as c:
        model(mx.array([tokens]))
    c.save("dump.safetensors", tokens=tokens)

A tensor is named after the module that returned it, by the module's path in the MLX model, such as
`model.layers.3.self_attn.q_norm`; a second output is `PATH.1`, and what the model itself returns is `logits`. `parity`
knows where MLX's names differ from the transformers library's. With `step_prefix=True` the model may be called again
and again, and the names of call N begin with `step.N.`; `mlx_lm` feeds a prompt in pieces, so there a step is a piece.

MLX has no hooks: for the `with` block, each module becomes an instance of a subclass of its own class whose call also
keeps the result. A function given to `mx.compile` calls no modules once compiled, so capture from the plain model.

Checked with mlx 0.32 and mlx_lm 0.32 on a CPU against the golden case m2-gqa3-f32: every shared site within 1e-5.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

SCHEMA = 1
"""Version of the manifest that a dump carries."""


class Capture:
    """Collects the outputs of all modules of `model` while the `with` block runs; `tensors` holds them by name.

    Names that match `exclude` are dropped: by default what is inside the routed experts, whose rows are sorted by
    expert, and the rotary embedding, which a layer calls for queries and again for keys.
    """

    def __init__(
        self, model: nn.Module, step_prefix: bool = False, *, exclude: Sequence[str] = ("*.switch_mlp.*", "*.rope")
    ) -> None:
        self.model = model
        self.tensors: dict[str, mx.array] = {}
        self._step_prefix, self._exclude = step_prefix, exclude
        self._calls = 0
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

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        tokens: Sequence[int] | None = None,
        model: str | None = None,
        semantics: str | None = None,
        precision: str | None = None,
        producer: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the tensors and a manifest to `path`, a `.safetensors`, under a temporary name until it is complete.

        The arguments are those of `capture.Capture.save`; whatever is None is left out of the manifest.
        """
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ValueError(f"{path}: expected a name that ends in .safetensors")
        if not self.tensors:
            raise RuntimeError("nothing was captured: expected a call of the model inside the `with` block")
        manifest = {
            "schema": SCHEMA,
            "model": model,
            "tokens": None if tokens is None else [int(token) for token in tokens],
            "semantics": semantics,
            "precision": precision,
            "producer": self._describe() | dict(producer or {}),
        }
        known = {key: value for key, value in manifest.items() if value is not None}
        unfinished = path.with_name(f".{os.getpid()}.{path.name}")
        try:
            mx.save_safetensors(str(unfinished), self.tensors, metadata={"parity": json.dumps(known)})
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _recording(self, path: str, plain: type[nn.Module]) -> type[nn.Module]:
        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not path:
                self._begin_call()
            output = plain.__call__(module, *args, **kwargs)
            self._keep(path or "logits", output)
            return output

        return type(plain.__name__, (plain,), {"__call__": call})

    def _begin_call(self) -> None:
        if self._calls and not self._step_prefix:
            raise RuntimeError("the model was called twice in one capture: pass step_prefix=True to number the calls")
        self._calls += 1

    def _keep(self, path: str, output: Any) -> None:
        prefix = f"step.{self._calls - 1}." if self._step_prefix else ""
        for index, value in enumerate(output if isinstance(output, (tuple, list)) else (output,)):
            name = path if index == 0 else f"{path}.{index}"
            if not isinstance(value, mx.array) or any(fnmatchcase(name, pattern) for pattern in self._exclude):
                continue
            if prefix + name in self.tensors:
                raise RuntimeError(
                    f"{name} was computed twice in one call of the model: leave it out with exclude=[…, {name!r}]"
                )
            # A new handle on the value: `x += y` makes the old one stand for the sum.
            self.tensors[prefix + name] = mx.array(value)

    def _describe(self) -> dict[str, Any]:
        library = type(self.model).__module__.split(".")[0]
        parameters = tree_flatten(self.model.parameters())
        known = {
            "library": library,
            "version": getattr(sys.modules.get(library), "__version__", None),
            "mlx": version("mlx"),
            "device": str(mx.default_device()),
            "dtype": str(parameters[0][1].dtype).removeprefix("mlx.core.") if parameters else None,
        }
        return {key: value for key, value in known.items() if value is not None}
