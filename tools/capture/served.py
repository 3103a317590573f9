"""A capture of a model inside a serving engine; `capture_vllm.py` and `capture_sglang.py` use it."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from capture import Capture


class ServedCapture(Capture):
    """A capture of a model whose rows have no batch axis, and whose logits are computed after its call.

    What the model itself returns are hidden states, and is left out; logits are what its `logits_processor` returns.
    Rows of several requests lie one behind the other: the manifest's calls then say by `cu_seqlens` where each begins,
    and by `requests` which it is, counted from 0 in the order in which they came.
    """

    def __init__(self, model: torch.nn.Module, **options: Any) -> None:
        super().__init__(model, **{"exclude": ("logits", "*.experts.*")} | options)
        self._lengths: list[int] = []

    def _before(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        path = self._path(module)
        if not self._running and self.calls and path.endswith("logits_processor"):
            self._running.append(path)  # It belongs to the call that there is.
            return
        taken = inspect.signature(module.forward).parameters
        named = {**dict(zip(taken, args)), **kwargs}
        ids, places = named.get("input_ids"), named.get("positions")
        if ids is None and "input_ids" in taken:  # Given embeddings: SGLang's batch has the tokens that they are of.
            ids = getattr(named.get("forward_batch"), "input_ids", None)
        # An engine may call the model's `forward`, past its hooks: then its parts are what runs first.
        if self._running or not isinstance(ids, torch.Tensor) or ids.ndim != 1:
            super()._before(module, args, kwargs)
            return
        super()._before(module, (), {"input_ids": ids[None]})
        if isinstance(places, torch.Tensor) and places.ndim == 1:
            positions = places.tolist()
            self.calls[-1] |= {"first": positions[0], "positions": [positions]}
            self._describe_requests(positions, _rows(named.get("forward_batch"), positions))

    def _after(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        # SGLang has logits in an object of its own.
        super()._after(module, args, getattr(output, "next_token_logits", output))

    def _describe_requests(self, positions: Sequence[int], rows: Sequence[int]) -> None:
        """Which request each of so many rows belongs to: the one that has as many positions as were before them."""
        starts = [sum(rows[:i]) for i in range(len(rows) + 1)]
        requests: list[int] = []
        for start, end in zip(starts, starts[1:]):
            first = positions[start]
            known = [i for i, length in enumerate(self._lengths) if length == first > 0 and i not in requests]
            if not known:
                self._lengths.append(0)
            requests.append(known[0] if known else len(self._lengths) - 1)
            self._lengths[requests[-1]] = first + end - start
        if len(self._lengths) > 1:
            self.calls[-1] |= {"first": None, "cu_seqlens": starts, "requests": requests}


def _rows(batch: Any, positions: Sequence[int]) -> list[int]:
    """Rows of each request in a call: as the engine says, or else from one position that does not follow to the next."""
    if batch is not None:  # SGLang's ForwardBatch: a prompt has several rows, a decoded token one.
        lengths = getattr(batch, "extend_seq_lens", None)
        return [1] * len(positions) if lengths is None else lengths.tolist()
    context = getattr(sys.modules.get("vllm.forward_context"), "_forward_context", None)
    metadata = getattr(context, "attn_metadata", None)
    metadata = next(iter(metadata.values()), None) if isinstance(metadata, dict) else metadata
    starts = getattr(metadata, "query_start_loc", None)
    if starts is not None and int(starts[-1]) == len(positions):
        return starts.diff().tolist()
    breaks = [i for i in range(1, len(positions)) if positions[i] != positions[i - 1] + 1]
    return [end - start for start, end in zip([0, *breaks], [*breaks, len(positions)])]
