"""Writes what every module of a PyTorch model computed into one file that `parity verify` reads.

This file stands alone: copy it next to your script; the Python package has it as `parity.capture`. It needs numpy,
safetensors and torch. A few lines make a dump:

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from capture import Capture

    model = AutoModelForCausalLM.from_pretrained("MODEL", dtype=torch.bfloat16)
    prompt = AutoTokenizer.from_pretrained("MODEL")(["Hello, world"], return_tensors="pt")
    with torch.no_grad(), Capture(model) as c:
        model(**prompt)
    c.save("dump.safetensors")

and `parity verify MODEL dump.safetensors` judges it: tokens, mask, positions and types are recorded, too. A padded
batch, a prompt in chunks and a decode are captured alike; M2, whose config claims layers it lacks, needs `use_mtp`:

    with torch.no_grad(), Capture(model) as c:
        model.generate(**prompt, do_sample=False, max_new_tokens=8, use_mtp=False)
    c.save("decode.safetensors")

**Names.** A tensor is named after the module that returned it, by the module's path: `model.layers.3.self_attn.q_norm`.
A second output of the same module is `PATH.1`, a third `PATH.2`; a tuple's members that are no tensors (None, a cache)
take up their number and are left out. `PATH.in` is a module's first input, kept only for modules that `inputs` matches.
What the model itself returns is `logits`. If the model is called more than once, names of call N, counted from 0, begin
with `step.N.`. What a module returns when it runs again within one call is `NAME#1`, then `NAME#2`; what a vision tower
computes of videos, after images, begins with `pass.1.` instead. A module that hangs in several places of the model has
the path of the place it was called from.

**Values.** Each tensor is copied the moment its module returns it, because models go on to change values in place.
It keeps its type and its shape, a leading batch axis included; an `.npz` has bfloat16 as float32, exactly.

**Calls.** The manifest's `calls` has one entry for each call of the model; B sequences, T columns of this call:

    first      places of the cache that were filled before: column t is place first + t; `cache_length` of all, or −1
    tokens     [B][T] ids; absent if the model was given embeddings instead
    mask       [B][T] 0 where the column is padding of that sequence; absent if nothing is
    cu_seqlens where sequences begin that lie one after another, and the end; absent unless they do
    positions  [B][T] position ids, as given or as the model made them
    logits     the rows whose logits were asked for: a count of the last rows, or their indices; absent if all
    inputs     type and shape of each tensor that went in, such as "int64 [2, 7]"
    image_grid_thw, video_grid_thw, or grid_thw where a vision tower was called alone: [n][3] patches of each

**What hooks cannot see.** Functions: rotary embedding, attention itself, whose probabilities are seen only if it is
eager. A compiled module or a captured CUDA graph runs no hooks: the manifest's `unseen` lists the outermost modules
that never ran. `torch.compiler.set_stance("force_eager")` or `disable_compile=True` show them.
"""

import inspect
import json
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
except ImportError:  # `Recording` and `write` serve other frameworks, too.
    torch = None

Fields = Mapping[str, Any]
SCHEMA = 1  # Version of the manifest that a dump carries.


class Recording:
    """Values by name, what went into each call, and the file of both, for any framework; `Capture` fills it by hooks.

    Args:
        first_step: the number N of the first call, for a capture that begins in the middle of a decode.
        include, exclude: patterns of names, without `step.N.` and `#1`, to keep and to drop; `*` matches dots, too. By
            default what is inside the routed experts is dropped: their rows, a selection, belong to no position.
        again: what runs once for images, then for videos: the second time names begin with `pass.1.`.
    """

    def __init__(
        self,
        first_step: int = 0,
        include: Sequence[str] = ("*",),
        exclude: Sequence[str] = ("*.experts.*",),
        again: Sequence[str] = ("*vision_tower*", "*multi_modal_projector*"),
    ) -> None:
        self.calls, self._values = list[dict[str, Any]](), list[dict[str, Any]]()
        self._first_step, self._include, self._exclude, self._again = first_step, include, exclude, again

    @property
    def tensors(self) -> dict[str, Any]:
        """All values by the names that the dump gives them."""
        numbered = self._first_step > 0 or len(self._values) > 1
        return {
            f"step.{step}.{name}" if numbered else name: value
            for step, values in enumerate(self._values, self._first_step)
            for name, value in values.items()
        }

    def begin_call(self, **inputs: Any) -> None:
        """Begins the next call; `inputs` are its fields in the manifest, of which None is left out."""
        self.calls.append({})
        self._values.append({})
        self.describe_call(**inputs)

    def describe_call(self, **inputs: Any) -> None:
        """Adds to the fields of the present call."""
        self.calls[-1] |= {name: value for name, value in inputs.items() if value is not None}

    def keep(self, name: str, value: Any) -> None:
        """Keeps a value of the present call, under a numbered name if there is one of this name."""
        if not _matches(name, self._include) or _matches(name, self._exclude):
            return
        first, times = name, 0
        while name in (values := self._values[-1]):
            times += 1
            name = f"pass.{times}.{first}" if _matches(first, self._again) else f"{first}#{times}"
        values[name] = value

    def save(self, path: Path | str, **said: Any) -> None:
        """Writes the values and their `manifest(**said)` to `path`, which appears only when it is complete.

        It ends in `.safetensors`, whose metadata key `parity` is the manifest, or `.npz`, whose `parity.json` is.
        """
        if not (values := self.tensors):
            raise RuntimeError("nothing was captured: expected a call of an eager model in the `with` block")
        write(path, values, self.manifest(**said))

    def manifest(self, *, tokens: Any = None, producer: Fields | None = None, **fields: Any) -> dict[str, Any]:
        """What a dump says of itself. Whatever is None is left out of it, and `parity` then asks or infers.

        Args:
            tokens: ids of a sequence, or of a batch [B, T], over all calls; needed only of what was before the capture
                and of a model that was given embeddings.
            producer: merged over what is known of the software: library, versions, types, implementations.
            fields: others of the manifest, such as `model`, `semantics` and `precision`, as the program takes them.
        """
        known = {"tokens": _one_sequence(self.calls, tokens), "producer": producer, "calls": self.calls, **fields}
        return {"schema": SCHEMA} | {key: value for key, value in known.items() if value is not None}


class Capture(Recording):
    """Collects what all modules of the whole `model` return while the `with` block runs, in `tensors` by name.

    `inputs` are modules whose first input is kept as `PATH.in`; `options` are those of `Recording`.
    """

    def __init__(self, model: "torch.nn.Module", *, inputs: Sequence[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self.model, self._plain, self._inputs = model, getattr(model, "_orig_mod", model), inputs
        self._paths: dict[int, list[str]] = {}
        self._running, self._ran = list[str](), set[str]()
        self._whole, self._known, self._reorder = False, dict[str, Any](), None
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> "Capture":
        # What `torch.compile` returns wraps the model; its own hooks run outside of what is compiled.
        modules, self._paths = {id(self.model): self.model}, {id(self.model): [""]}
        for path, module in self._plain.named_modules(remove_duplicate=False):
            modules[id(module)] = module
            self._paths.setdefault(id(module), []).append(path.replace("_orig_mod.", ""))
        for module in modules.values():
            before = module.register_forward_pre_hook(self._before, with_kwargs=True)
            self._hooks += [before, module.register_forward_hook(self._after, always_call=True)]
        self._plain._reorder_cache, self._reorder = _refuse_beams, vars(self._plain).get("_reorder_cache")
        return self

    def __exit__(self, *exception: object) -> None:
        while self._hooks:
            self._hooks.pop().remove()
        self._running.clear()
        del self._plain._reorder_cache
        if self._reorder is not None:  # The instance's own, or that of a capture around this one.
            self._plain._reorder_cache = self._reorder
        if exception[0] is None and self.calls and _compiled(self.model) and (unseen := self._unseen()):
            warnings.warn(
                f"{len(unseen)} modules ran no hook and are not in the dump, such as {unseen[0]}; compiled ones run "
                'none: run eagerly, by torch.compiler.set_stance("force_eager") or generate(disable_compile=True)',
                stacklevel=2,
            )

    def manifest(self, *, tokens: Any = None, producer: Fields | None = None, **fields: Any) -> dict[str, Any]:
        """As `Recording.manifest`, with what is known of the software and of what was not seen."""
        known = _describe(self._plain) | {"compiled": _compiled(self.model)} | self._known
        known = {key: value for key, value in known.items() if value} | dict(producer or {})
        return super().manifest(tokens=tokens, producer=known, unseen=self._unseen() or None, **fields)

    def _before(self, module: "torch.nn.Module", args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if torch.compiler.is_compiling() or torch._C._current_graph_task_id() != -1:  # A backward pass recomputes.
            return
        path = self._path(module)
        if not self._running:
            # What runs before the whole model, as a vision tower does in `generate`, belongs to the same call.
            again = self.calls and path in self._values[-1] and not _matches(path, self._again)
            begin = self.begin_call if not self.calls or self._whole or again else self.describe_call
            begin(**_call(_arguments(self._plain if path == "" else module, args, kwargs)))
            self._whole = path == ""
            device = next(self._plain.parameters(), torch.empty(0)).device.type
            if torch.is_autocast_enabled(device):
                self._known["autocast"] = _name(torch.get_autocast_dtype(device))
        self._running.append(path)
        call = self.calls[-1]
        # A model that was given no positions makes them itself and hands them to its layers.
        if "positions" not in call and (made := _positions(kwargs.get("position_ids"), call.get("tokens"))):
            call["positions"] = made
        if _matches(path, self._inputs):
            self._keep(f"{path}.in", next(iter((*args, *kwargs.values())), None))

    def _after(self, module: "torch.nn.Module", args: tuple[Any, ...], output: Any) -> None:
        if torch.compiler.is_compiling() or torch._C._current_graph_task_id() != -1 or not self._running:
            return
        if (path := self._running.pop()) == "" and "" in self._running:
            return  # A compiled wrapper that was told to run eagerly calls the model that it wraps.
        self._ran.add(_any_layer(path))
        for name, value in _named(path, output):
            self._keep(name, value)

    def _path(self, module: "torch.nn.Module") -> str:
        """The module's path; of one that hangs in several places, the place nearest to the module that calls it."""
        caller = self._running[-1].split(".") if self._running else []
        return max(self._paths[id(module)], key=lambda path: len(os.path.commonprefix([path.split("."), caller])))

    def _keep(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.keep(name, value.detach().to("cpu", copy=True).contiguous())

    def _unseen(self) -> list[str]:
        """The outermost modules that never ran, those of all layers under one name; lists of modules never run."""
        lists = (torch.nn.ModuleList, torch.nn.ModuleDict)
        paths = (_any_layer(path) for path, module in self._plain.named_modules() if not isinstance(module, lists))
        unseen = [p for p in dict.fromkeys(paths) if p and p not in self._ran and not _matches(p, self._exclude)]
        return [path for path in unseen if not any(path.startswith(f"{outer}.") for outer in unseen)]


def write(path: Path | str, tensors: Mapping[str, Any], manifest: Fields) -> None:
    """Writes a dump of torch's tensors, numpy's arrays or MLX's; the same values and manifest give the same bytes."""
    path, writers = Path(path), {".safetensors": _write_safetensors, ".npz": _write_npz}
    if path.suffix not in writers:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(writers)}, found {path.suffix!r}")
    unfinished = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        writers[path.suffix](unfinished, tensors, json.dumps(manifest))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _write_safetensors(path: Path, tensors: Mapping[str, Any], manifest: str) -> None:
    framework = type(next(iter(tensors.values()))).__module__.partition(".")[0]
    if framework == "mlx":  # Its own writer has bfloat16; that of safetensors goes by way of numpy, which has none.
        import_module("mlx.core").save_safetensors(str(path), dict(tensors), {"parity": manifest})
        return
    import_module(f"safetensors.{framework}").save_file(dict(tensors), str(path), {"parity": manifest})


def _write_npz(path: Path, tensors: Mapping[str, Any], manifest: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("parity.json"), manifest)
        for name, value in sorted(tensors.items()):
            if torch is not None and isinstance(value, torch.Tensor):
                known = value.dtype in (torch.float16, torch.float32, torch.float64) or not value.is_floating_point()
                value = (value if known else value.float()).numpy()
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)


def _one_sequence(calls: list[dict[str, Any]], given: Any) -> list[int] | None:
    """The manifest's `tokens`: those of the only sequence, over all calls; None for several, whose calls have them."""
    rows = None if given is None else _rows(given)
    if rows is not None and len(calls) == 1:
        calls[0].setdefault("tokens", rows)
    fed = [tokens for call in calls if (tokens := call.get("tokens")) is not None]
    if len(fed) < len(calls) or len(set(map(len, fed))) > 1 or any("cu_seqlens" in call for call in calls):
        return rows[0] if rows is not None and len(rows) == 1 else None
    recorded: list[list[int]] = [sum(pieces, []) for pieces in zip(*fed, strict=True)]
    # Tokens before the capture are not known, and padding is no token.
    if rows is None and (calls[0].get("first") or any("mask" in call for call in calls)):
        return None
    rows = recorded if rows is None else rows
    if len(rows) != len(recorded) or [row[-len(own) :] for row, own in zip(rows, recorded)] != recorded:
        raise ValueError(f"tokens: expected to end with those that went into the model, {recorded}, found {rows}")
    return rows[0] if len(rows) == 1 else None


def _rows(tokens: Any) -> list[list[int]]:
    """Tokens of one sequence or of a batch, as lists."""
    values = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
    rows = values if values and isinstance(values[0], (list, tuple)) else [values]
    return [[int(token) for token in row] for row in rows]


def _arguments(module: "torch.nn.Module", args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, those that a signature gathers among them."""
    bound = inspect.signature(module.forward).bind_partial(*args, **kwargs).arguments
    return {**bound, **bound.pop("kwargs", {})}


def _call(arguments: Fields) -> dict[str, Any]:
    """What the manifest says of a call of a transformers model, whose cache has another name from 5.24 on."""
    cache: Any = next((value for value in arguments.values() if hasattr(value, "get_seq_length")), None)
    ids, first = arguments.get("input_ids"), 0 if cache is None else int(cache.get_seq_length())
    fed, packed = ids if ids is not None else arguments.get("inputs_embeds"), _list(arguments.get("cu_seq_lens_q"))
    # Where sequences lie one after another, what the last query does not attend to is another's, and no padding.
    padding = None if fed is None or packed else _padding(arguments.get("attention_mask"), first, fed.shape[1])
    return {
        "first": first,
        "tokens": _list(ids),
        "mask": padding if padding and any(0 in row for row in padding) else None,
        "positions": _positions(arguments.get("position_ids"), ids),
        "cu_seqlens": packed,
        "cache_length": int(cache.get_max_length(0)) if hasattr(cache, "get_max_length") else None,
        "logits": _list(arguments.get("logits_to_keep")) or None,
        **{name: _list(arguments.get(name)) for name in ("image_grid_thw", "video_grid_thw", "grid_thw")},
        "inputs": {k: f"{_name(x.dtype)} {list(x.shape)}" for k, x in arguments.items() if isinstance(x, torch.Tensor)},
    }


def _refuse_beams(cache: Any, rows: Any) -> None:
    """Stands for what moves a cache's rows between the calls of a beam search."""
    raise RuntimeError("beam search moves sequences from row to row, which no dump tells: expected num_beams=1")


def _name(dtype: "torch.dtype") -> str:
    return str(dtype).removeprefix("torch.")


def _list(value: Any) -> Any:
    return value.tolist() if isinstance(value, torch.Tensor) else value


def _positions(given: Any, tokens: Sequence[Any] | None) -> list[list[int]] | None:
    """Position ids [B][T]; one row of them may serve all sequences."""
    if not isinstance(given, torch.Tensor) or given.ndim > 2:
        return None
    return (rows := _rows(given)) * (len(tokens) if tokens is not None and len(rows) == 1 else 1)


def _padding(mask: Any, first: int, width: int) -> list[list[int]] | None:
    """0 for each column of a call that is padding [B][T], from a mask [B, S], or the last query's of [B, 1, T, S]."""
    mask = next((x for x in mask.values() if x is not None), None) if isinstance(mask, Mapping) else mask
    if not isinstance(mask, torch.Tensor) or mask.ndim not in (2, 4):
        return None
    if mask.ndim == 4:  # Of booleans, or of what is added to scores: nothing where a place is attended to.
        mask = mask[:, 0, -1] if mask.dtype == torch.bool else mask[:, 0, -1] == 0
    return list((mask[:, first : first + width] != 0).int().tolist())


def _named(path: str, output: Any) -> Iterator[tuple[str, Any]]:
    """The outputs of the module at `path`, by name; the model itself has the empty path."""
    if isinstance(output, Mapping):
        # Only whole models return a mapping, and all of it but the logits was seen when its own module returned it.
        output = None if path else output.get("logits")
    for index, value in enumerate(output if isinstance(output, (tuple, list)) else (output,)):
        yield (path or "logits") + (f".{index}" if index else ""), value


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _any_layer(path: str) -> str:
    """The path with `*` for each number."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)


def _compiled(model: "torch.nn.Module") -> bool:
    """Whether calls of the model or of a part are compiled: by a wrapper, in place, or by `generate` itself."""
    marks = ("_orig_mod", "_compiled_call", "_compiled_call_impl")
    return any(getattr(module, mark, None) is not None for module in model.modules() for mark in marks)


def _describe(model: "torch.nn.Module") -> dict[str, Any]:
    """What is known of the software that computes `model`; what a model does not say is None."""
    library, config = type(model).__module__.split(".")[0], getattr(model, "config", None)
    parameter = next(model.parameters(), torch.empty(0))
    device = parameter.device.type
    return {
        "library": library,
        "version": getattr(sys.modules.get(library), "__version__", None),
        "torch": torch.__version__,
        "device": device,
        "cpu": torch.backends.cpu.get_cpu_capability() if device == "cpu" else None,
        "dtype": _name(parameter.dtype),
        "dtypes": _other_types(model, parameter.dtype),
        "attention": getattr(config, "_attn_implementation", None),
        "experts": getattr(config, "_experts_implementation", None),
    }


def _other_types(model: "torch.nn.Module", usual: "torch.dtype") -> dict[str, str]:
    """Types of the floating weights and buffers that are not of the usual one; those of all layers under one name."""
    types: dict[str, set[str]] = {}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point():
            types.setdefault(_any_layer(name), set()).add(_name(tensor.dtype))
    return {name: " or ".join(sorted(found)) for name, found in types.items() if found != {_name(usual)}}
