"""A capture of a model inside a serving engine; `capture_vllm.py` and `capture_sglang.py` use it."""

from collections.abc import Mapping
from typing import Any

import torch
from capture import Capture


class ServedCapture(Capture):
    """A capture of a model whose rows have no batch axis, and whose logits are computed after its call.

    What the model itself returns are hidden states, and is left out; logits are what its `logits_processor` returns.
    """

    def __init__(self, model: torch.nn.Module, **options: Any) -> None:
        super().__init__(model, **{"exclude": ("logits", "*.experts.*")} | options)

    def _before(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        path = self._path(module)
        if not self._running and self.calls and path.endswith("logits_processor"):
            self._running.append(path)  # It belongs to the call that there is.
            return
        named = {**dict(zip(("input_ids", "positions"), args)), **kwargs}
        ids, places = named.get("input_ids"), named.get("positions")
        if path != "" or not isinstance(ids, torch.Tensor) or ids.ndim != 1:
            super()._before(module, args, kwargs)
            return
        super()._before(module, (), {"input_ids": ids[None]})
        if isinstance(places, torch.Tensor) and places.ndim == 1:
            self.calls[-1] |= {"first": int(places[0]), "positions": [places.tolist()]}

    def _after(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        # SGLang has logits in an object of its own.
        super()._after(module, args, getattr(output, "next_token_logits", output))
