"""Makes the dumps of mlx-lm: M2 and M3 in float32, and a generation.

    python tools/engines/make_mlx.py --cases fixtures/golden-engines/cases --out fixtures/golden-engines/mlx-lm

Nothing stands in for anything. On a CPU, MLX gathers experts in float32 alone. Needs requirements-mlx.txt.
"""

import sys
from argparse import Namespace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "capture"))

import mlx.core as mx
from capture_mlx import Capture
from making import FIRST_AND_EXPERTS, Made, arguments, prompt, record
from mlx import nn
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model


def main() -> None:
    """Makes all."""
    given = arguments("Makes the dumps of mlx-lm.")
    made = [at_once(given), generation(given)]
    record(given.out, "make_mlx.py", ("mlx", "mlx-lm"), made)


def model_of(given: Namespace, case: str) -> nn.Module:
    """The model of a case, in float32."""
    model, _ = load_model(given.cases / case / "model")
    model.set_dtype(mx.float32)
    return model


def at_once(given: Namespace) -> Made:
    """M2's prompt at once."""
    model = model_of(given, "m2")
    with Capture(model, exclude=FIRST_AND_EXPERTS) as capture:
        model(mx.array([prompt(given.cases, "m2")]))
    capture.save(given.out / "m2-f32.safetensors")
    return Made("m2-f32.safetensors", "m2", "a prompt at once, in float32")


def generation(given: Namespace) -> Made:
    """M3's prompt in pieces of 16 tokens, and three greedy tokens."""
    model = model_of(given, "m3")
    with Capture(model, exclude=FIRST_AND_EXPERTS) as capture:
        list(generate_step(mx.array(prompt(given.cases, "m3")), model, max_tokens=3, prefill_step_size=16))
    capture.save(given.out / "m3-generation-f32.safetensors")
    return Made("m3-generation-f32.safetensors", "m3", "a prompt in pieces of 16 tokens, then three greedy tokens")


if __name__ == "__main__":
    main()
