"""Measures what `parity.watch` adds to a forward pass: an M2 of released proportions, hidden 1024, 64 tokens, on the CPU.

    pip install -r tools/oracle/requirements.txt ./tools/python && python tools/python/measure_watch.py

The pass is timed within the block, after the hooks are in place and before what was captured is judged: the fastest of
as many passes with and without, taken in turns. On a machine that does other things, too, `--cpu` counts the processor's
time of a single thread instead. With --judge, one block is judged, too, and that time told apart.
"""

import argparse
import tempfile
import time
from collections.abc import Callable

import parity
import torch
from parity.capture import Capture
from transformers import MiniMaxM2Config, MiniMaxM2ForCausalLM

LIMIT = 1.10  # What watching may take, of the time without.


def model_of(hidden: int, layers: int, dtype: torch.dtype) -> MiniMaxM2ForCausalLM:
    """A model of M2's proportions with weights from a seed."""
    torch.manual_seed(0)
    config = MiniMaxM2Config(
        vocab_size=4096,
        hidden_size=hidden,
        intermediate_size=hidden // 2,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 384),
        head_dim=128,
        rotary_dim=64,
        num_local_experts=32,
        num_experts_per_tok=8,
    )
    return MiniMaxM2ForCausalLM._from_config(config, dtype=dtype, attn_implementation="eager").eval()


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long it takes."""
    start = clock()
    work()
    return clock() - start


def judge(model: MiniMaxM2ForCausalLM, ids: torch.Tensor) -> None:
    """Watches one pass and judges it."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        start = time.perf_counter()
        with parity.watch(model, folder) as watch:
            within = seconds(lambda: model(ids))
        print(f"judging {time.perf_counter() - start - within:.2f} s: {watch.report!r}")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--hidden", type=int, default=1024)
    asked.add_argument("--layers", type=int, default=4)
    asked.add_argument("--tokens", type=int, default=64)
    asked.add_argument("--passes", type=int, default=15)
    asked.add_argument("--dtype", default="bfloat16")
    asked.add_argument("--cpu", action="store_true")
    asked.add_argument("--judge", action="store_true")
    given = asked.parse_args()
    clock = time.thread_time if given.cpu else time.perf_counter
    if given.cpu:
        torch.set_num_threads(1)
    model = model_of(given.hidden, given.layers, getattr(torch, given.dtype))
    ids = torch.arange(given.tokens).remainder(4096)[None] + 1
    plain, watched = list[float](), list[float]()
    with torch.no_grad():
        model(ids)
        for _ in range(given.passes):
            plain.append(seconds(lambda: model(ids), clock))
            with Capture(model) as captured:
                watched.append(seconds(lambda: model(ids), clock))
        size = sum(value.nbytes for value in captured.tensors.values())
        before, after = min(plain), min(watched)
        print(f"forward {1e3 * before:.1f} ms, watched {1e3 * after:.1f} ms: {after / before:.3f} times, "
              f"at most {LIMIT}; {len(captured.tensors)} tensors, {size / 1e6:.1f} MB")
        if given.judge:
            judge(model, ids)
    raise SystemExit(after > LIMIT * before)


if __name__ == "__main__":
    main()
