"""Writes what every module of a PyTorch model computed into one file that `parity verify` reads.

This file stands alone: copy it next to your script, or import it. It needs torch, numpy and safetensors, which every
installation of transformers has. Ten lines make a dump:

    import torch
    from transformers import AutoModelForCausalLM
    from capture import Capture

    tokens = [9707, 11, 1879]
    model = AutoModelForCausalLM.from_pretrained("MODEL", dtype="auto", attn_implementation="eager")
    with torch.no_grad(), Capture(model) as c:
        model(torch.tensor([tokens], device=model.device))
    c.save("dump.safetensors", tokens=tokens)

and `parity verify MODEL dump.safetensors` judges it. To dump a decode, number the calls; `use_mtp` must be said for M2,
whose released config claims prediction layers that its checkpoint does not have:

    prompt = torch.tensor([tokens], device=model.device)
    with torch.no_grad(), Capture(model, step_prefix=True) as c:
        output = model.generate(prompt, do_sample=False, max_new_tokens=8, use_mtp=False)
    c.save("decode.safetensors", tokens=output[0, :-1])

**Names.** A tensor is named after the module that returned it, by the module's path: `model.layers.3.self_attn.q_norm`.
A second output of the same module is `PATH.1`, a third `PATH.2`; a tuple's members that are no tensors (None, a cache)
take up their number and are left out. `PATH.in` is a module's first input, kept only for modules that `inputs` matches.
What the model itself returns is `logits`. With `step_prefix`, the names of call N begin with `step.N.`; what a vision
tower computes of videos, after images, begins with `pass.1.`.

**Values.** Each tensor is copied the moment its module returns it, because models go on to change values in place.
It keeps its type and its shape, a leading batch axis included. An `.npz` knows no bfloat16: there it becomes float32,
exactly.

**What hooks cannot see.** Only modules are seen: a function (rotary embedding, attention itself) is not, and a compiled
model or a captured CUDA graph runs no hooks. Attention probabilities exist only with `attn_implementation="eager"`.
"""

import json
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

SCHEMA = 1
"""Version of the manifest that a dump carries."""


class Capture:
    """Collects the outputs of all modules of `model` while the `with` block runs; `tensors` holds them by name.

    Args:
        model: the whole model, so that paths are those of its checkpoint.
        step_prefix: allow several calls of the model and begin names with `step.N.`; a second call is an error without.
        first_step: the number N of the first call, for a capture that begins in the middle of a decode.
        include: keep only names that match one of these patterns, in which `*` matches any characters, dots too.
            `step.N.` is no part of the name here.
        exclude: drop names that match one of these. By default what is inside the routed experts: those modules
            see a gathered selection of tokens, once an expert, and their rows belong to no position.
        inputs: modules whose first input is kept as `PATH.in`.
        again: what one call of the model may run twice, as it does a vision tower: for images, then for videos. The
            second time names begin with `pass.1.`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        step_prefix: bool = False,
        *,
        first_step: int = 0,
        include: Sequence[str] = ("*",),
        exclude: Sequence[str] = ("*.experts.*",),
        inputs: Sequence[str] = (),
        again: Sequence[str] = ("*vision_tower*", "*multi_modal_projector*"),
    ) -> None:
        self.model = model
        self.tensors: dict[str, torch.Tensor] = {}
        self._step_prefix = step_prefix
        self._next_step = self._first_step = first_step
        self._prefix = ""
        self._include, self._exclude, self._inputs, self._again = include, exclude, inputs, again
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> "Capture":
        self._hooks.append(self.model.register_forward_pre_hook(self._begin_call))
        for path, module in self.model.named_modules():
            if _matches(path, self._inputs):
                self._hooks.append(module.register_forward_pre_hook(self._input_hook(path), with_kwargs=True))
            self._hooks.append(module.register_forward_hook(self._output_hook(path)))
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        tokens: Sequence[int] | torch.Tensor | None = None,
        model: str | None = None,
        semantics: str | None = None,
        precision: str | None = None,
        producer: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the tensors and a manifest to `path`, which appears only when it is complete.

        `path` ends in `.safetensors` or `.npz`. The manifest is JSON: metadata key `parity` of a safetensors, member
        `parity.json` of an npz. Whatever is None is left out of it, and `parity` then asks or infers.

        Args:
            tokens: the ids that went into the model, in order, over all calls.
            model: what the model is called in reports.
            semantics: which reading of the documents this is a dump of: `released` or `documents`.
            precision: where values were rounded, such as `eager_bf16`.
            producer: merged over what is known of the software: library, versions, types, implementations.
        """
        if not self.tensors:
            raise RuntimeError(
                "nothing was captured: expected a call of the model inside the `with` block; "
                "a compiled model or a CUDA graph runs no hooks, so capture from the eager model"
            )
        manifest = {
            "schema": SCHEMA,
            "model": model,
            "tokens": None if tokens is None else [int(token) for token in tokens],
            "semantics": semantics,
            "precision": precision,
            "producer": _describe(self.model) | dict(producer or {}),
        }
        write(path, self.tensors, {key: value for key, value in manifest.items() if value is not None})

    def _begin_call(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if self._step_prefix:
            self._prefix = f"step.{self._next_step}."
        elif self._next_step > self._first_step:
            raise RuntimeError("the model was called twice in one capture: pass step_prefix=True to number the calls")
        self._next_step += 1

    def _input_hook(self, path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._keep(f"{path}.in", next(iter((*args, *kwargs.values())), None))

        return hook

    def _output_hook(self, path: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
            for name, value in _named(path, output):
                self._keep(name, value)

        return hook

    def _keep(self, name: str, value: Any) -> None:
        if not isinstance(value, torch.Tensor) or not _matches(name, self._include) or _matches(name, self._exclude):
            return
        if self._prefix + name in self.tensors and _matches(name, self._again):
            name = f"pass.1.{name}"
        if self._prefix + name in self.tensors:
            raise RuntimeError(
                f"{name} was computed twice in one call of the model: expected once, since the second value would "
                f"replace the first; leave it out with exclude=[…, {name!r}]"
            )
        self.tensors[self._prefix + name] = value.detach().to("cpu", copy=True).contiguous()


def write(path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], manifest: Mapping[str, Any]) -> None:
    """Writes a dump; the same tensors and manifest always give the same bytes."""
    path = Path(path)
    writers = {".safetensors": _write_safetensors, ".npz": _write_npz}
    if path.suffix not in writers:
        raise ValueError(
            f"{path}: expected a name that ends in {' or '.join(writers)}, found {path.suffix or 'no ending'!r}"
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        writers[path.suffix](unfinished, tensors, json.dumps(manifest))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor], manifest: str) -> None:
    save_file(dict(tensors), path, metadata={"parity": manifest})


def _write_npz(path: Path, tensors: Mapping[str, torch.Tensor], manifest: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("parity.json", "w") as member:
            member.write(manifest.encode())
        for name, tensor in sorted(tensors.items()):
            known = tensor.dtype in (torch.float16, torch.float32, torch.float64) or not tensor.is_floating_point()
            array = (tensor if known else tensor.float()).numpy()
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _named(path: str, output: Any) -> Iterator[tuple[str, Any]]:
    """The outputs of the module at `path`, by name; the model itself has the empty path."""
    if isinstance(output, Mapping):
        # Only whole models return a mapping, and all of it but the logits was seen when its own module returned it.
        output = None if path else output.get("logits")
    members = output if isinstance(output, (tuple, list)) else (output,)
    for index, value in enumerate(members):
        first = path or "logits"
        yield (first if index == 0 else f"{first}.{index}"), value


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _describe(model: torch.nn.Module) -> dict[str, Any]:
    """What is known of the software that computes `model`; what a model does not say is left out."""
    library = type(model).__module__.split(".")[0]
    config = getattr(model, "config", None)
    parameter = next(model.parameters(), torch.empty(0))
    known = {
        "library": library,
        "version": getattr(sys.modules.get(library), "__version__", None),
        "torch": torch.__version__,
        "device": parameter.device.type,
        "dtype": str(parameter.dtype).removeprefix("torch."),
        "attention": getattr(config, "_attn_implementation", None),
        "experts": getattr(config, "_experts_implementation", None),
    }
    return {key: value for key, value in known.items() if value is not None}
