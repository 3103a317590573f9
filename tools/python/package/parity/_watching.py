"""A PyTorch model watched while it runs, and what it computed judged."""

import os
from collections.abc import Sequence
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any

from parity._arguments import model_of
from parity._asserting import require
from parity._calls import Path, diagnose, verify
from parity._errors import failed
from parity._native import Diagnosis, ParityError, Report

if TYPE_CHECKING:
    import torch

    from parity.capture import Capture

HELP_MODEL = "give the model itself, then its folder"

PARTS = "what modules of a whole model return, such as model.embed_tokens, model.layers.0.self_attn and lm_head"


def watch(
    model: "torch.nn.Module",
    checkpoint: Path,
    *,
    inputs: Sequence[str] = (),
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = ("*.experts.*",),
    producer: dict[str, Any] | None = None,
    **options: Any,
) -> "Watch":
    """Captures what every module of `model` returns in a `with` block, and judges all of it at the block's end.

        with torch.no_grad(), parity.watch(model, "MODEL") as w:
            model(input_ids)
        print(w.report)

    Args:
        model: the whole model, run eagerly; its modules have the transformers library's names, or `names` maps theirs.
        checkpoint: the folder that its weights are from, or a built-in case's name.
        inputs: patterns of modules whose first input is kept, too.
        include, exclude: patterns of names to keep and to drop.
        producer: what is known of the software, over what is found.
        options: those of `verify`: `tokens` (recorded unless the model was given embeddings), `precision`, `lenses`, ….

    Raises:
        ParityError: from the block's end, as `verify`; where no module ran; and at once, where `model` is no module.
        TypeError: an option that `verify` does not have.
    """
    from parity.capture import Capture

    if not hasattr(model, "named_modules"):
        raise failed(f"model: expected a torch.nn.Module, found {_class_of(model)}", HELP_MODEL)
    model_of(checkpoint)
    signature(verify).bind(checkpoint, None, manifest=None, **options)
    capture = Capture(model, inputs=inputs, include=include, exclude=exclude)
    return Watch(capture, checkpoint, producer, options)


class Watch:
    """What a watched model computed: `tensors` by name, its `manifest`, and, after the block, its `report`.

    A snapshot of each value is taken when its module returns it, in the processor's memory. If the block raises,
    nothing is judged.
    """

    def __init__(self, capture: "Capture", checkpoint: Path, producer: dict[str, Any] | None, options: Any) -> None:
        self._capture, self._checkpoint, self._producer, self._options = capture, checkpoint, producer, options
        self._report: Report | None = None

    def __enter__(self) -> "Watch":
        self._report = None
        self._capture.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._capture.__exit__(kind, error, trace)
        if kind is None:
            try:
                self._report = verify(self._checkpoint, self.tensors, manifest=self.manifest, **self._options)
            except ParityError as error:
                self._require_parts(error)
                raise

    def _require_parts(self, error: ParityError) -> None:
        """Refuses a model that cannot be judged and whose own output is all that was captured."""
        shown = [f"{name} {list(value.shape)}" for name, value in self.tensors.items()]
        if all(name.rpartition(".")[2] == "logits" for name in self.tensors):
            found = f"of {_class_of(self._capture.model)} only {', '.join(shown)} was captured"
            raise failed(f"model: {found}, expected {PARTS}", HELP_MODEL) from error

    @property
    def tensors(self) -> dict[str, "torch.Tensor"]:
        """What was captured, by the names of a dump."""
        return self._capture.tensors

    @property
    def manifest(self) -> dict[str, Any]:
        """What went into each call, and what is known of the software."""
        if not self.tensors:
            help = "call the whole model in the block, eagerly: a compiled one runs no hooks"
            raise failed("nothing was captured", help)
        return self._capture.manifest(producer=self._producer)

    @property
    def report(self) -> Report:
        """What the block's end found."""
        if self._report is None:
            raise failed("nothing is judged yet", "ask for the report after the block has ended without an error")
        return self._report

    def require(self) -> Report:
        """Demands that there is no fault, as `assert_parity` does."""
        __tracebackhide__ = True
        return require(self.report)

    def diagnose(self) -> Diagnosis:
        """Names the mistake in what was captured, as `parity.diagnose` does."""
        known = ("tokens", "precision", "semantics", "names", "pixels", "images", "videos")
        options = {name: value for name, value in self._options.items() if name in known}
        return diagnose(self._checkpoint, self.tensors, manifest=self.manifest, **options)

    def save(self, path: Path) -> None:
        """Writes a dump, `.safetensors` or `.npz`, that `parity verify` reads; the former needs safetensors."""
        self._capture.save(os.fspath(path), producer=self._producer)


def _class_of(model: Any) -> str:
    return f"{type(model).__module__}.{type(model).__qualname__}"
