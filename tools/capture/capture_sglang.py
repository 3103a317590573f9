"""Writes what every module of a model computed inside SGLang's model runner into one file that `parity verify` reads.

    python capture_sglang.py MODEL --tokens 9707,11,1879 --decode 4 --out dump.safetensors

It runs SGLang's own runner, cache and attention in this process, as `sglang.bench_one_batch` does, without a server.
`served.py` and `capture.py` must lie beside it. CUDA graphs and the prefix cache are off: the first run no hooks, the
second keeps rows from being computed. `--set FIELD=VALUE` sets a field of SGLang's `ServerArgs`, such as `device=cpu`.

Names are those of SGLang's modules, of which `parity` has a map. Rows are packed, without a batch axis; logits are
those of the last row alone.

The capture itself is tested on a stand-in of such a model (`test_served.py`); `load` follows SGLang 0.5.23, whose
runner was checked on a CPU with `attention_backend=torch_native`, and has not run on a GPU.
"""

import argparse
import json
from typing import Any

import sglang
import torch
from served import ServedCapture
from sglang.benchmark import one_batch
from sglang.srt.runtime_context import SpawnRanks, publish, spawn_world_rank
from sglang.srt.server_args import PortArgs, ServerArgs


def main() -> None:
    """Runs the prompt that the command line gives."""
    parser = argparse.ArgumentParser(description="Writes what every module computed inside SGLang's model runner.")
    parser.add_argument("model", help="a folder as on the hub")
    parser.add_argument("--tokens", required=True, help="ids, with commas between them")
    parser.add_argument("--out", required=True, help="a .safetensors or .npz file")
    parser.add_argument("--decode", type=int, default=0, help="greedy tokens to take after the prompt")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a field of ServerArgs")
    arguments = parser.parse_args()
    tokens = [int(token) for token in arguments.tokens.split(",")]
    settings = dict(setting.split("=", 1) for setting in arguments.set)
    runner = load(arguments.model, **{field: _value(text) for field, text in settings.items()})
    capture(runner, tokens, arguments.decode).save(
        arguments.out, producer={"library": "sglang", "version": sglang.__version__, **settings}
    )


def load(model: str, **settings: Any) -> Any:
    """SGLang's runner of one process."""
    plain = {
        "skip_tokenizer_init": True,
        "disable_cuda_graph": True,
        "disable_radix_cache": True,
        "disable_overlap_schedule": True,
        "chunked_prefill_size": -1,
    }
    args = ServerArgs(model_path=model, **plain | settings)
    ports = PortArgs.init_new(args)
    ranks = SpawnRanks(world_rank=spawn_world_rank(args, tp_rank=0, pp_rank=0), gpu_id=0)
    publish(args, role="scheduler", ranks=ranks)
    one_batch._init_process_global_configs()
    one_batch.get_tokenizer = lambda *args, **kwargs: None
    return one_batch.load_model(args, ports, 0, 0)[0]


@torch.no_grad()
def capture(runner: Any, tokens: list[int], decode: int) -> ServedCapture:
    """What the prompt, and so many greedy tokens after it, made the model compute."""
    [request] = one_batch.prepare_synthetic_inputs_for_latency_test(1, len(tokens), [tokens])
    with ServedCapture(runner.torch_runner.model) as recorded:
        chosen, _, batch = runner.extend([request])
        for _ in range(decode):
            chosen, _ = runner.decode(chosen, batch)
    return recorded


def _value(text: str) -> Any:
    """A number, a list, true or false as JSON writes them; anything else is a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


if __name__ == "__main__":
    main()
