"""Writes what every module of a model computed inside vLLM's worker into one file that `parity verify` reads.

    import capture_vllm
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    llm = LLM("MODEL", enforce_eager=True, enable_prefix_caching=False)
    with capture_vllm.capture(llm, "dump.safetensors"):
        llm.generate(TokensPrompt(prompt_token_ids=[9707, 11, 1879]), SamplingParams(temperature=0, max_tokens=4))

This file, `served.py` and `capture.py` must lie where workers find them (`PYTHONPATH`), and functions are sent to
workers only with `VLLM_ALLOW_INSECURE_SERIALIZATION=1`. `enforce_eager` is needed because a compiled model and a CUDA
graph run no hooks; a prefix cache would keep rows from being computed. With tensor parallelism a worker sees its shard
alone, so capture with one worker. Requests that share a step are told apart.

Names are those of vLLM's modules, of which `parity` has a map. Logits come from `logits_processor`, of the last row
alone. A prompt longer than `max_num_batched_tokens` comes in chunks, each a call of the manifest.

The capture itself is tested on a stand-in of such a model (`test_served.py`). vLLM's engine does not run on a CPU from
the wheel on PyPI, so `capture` has not run with it yet.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from served import ServedCapture

if TYPE_CHECKING:
    from vllm import LLM


@contextmanager
def capture(llm: "LLM", path: str, **fields: Any) -> Iterator[None]:
    """Captures what `llm` computes inside the `with` block; `fields` are those of `Capture.save`."""
    llm.apply_model(start)
    yield
    llm.apply_model(partial(finish, path=path, **fields))


def start(model: torch.nn.Module) -> None:
    """Begins a capture of a worker's model."""
    model.parity_capture = ServedCapture(model).__enter__()


def finish(model: torch.nn.Module, path: str, **fields: Any) -> None:
    """Ends it and writes the dump."""
    recorded = model.parity_capture
    del model.parity_capture
    recorded.__exit__(None, None, None)
    recorded.save(path, **fields)
