"""Makes the dumps of SGLang on a CPU; `sglang_on_cpu.py` says what of it is real.

    python tools/engines/make_sglang.py --cases fixtures/golden-engines/cases --out fixtures/golden-engines/sglang

M3 is wrong there: its router's weight is loaded in bfloat16, and its experts on a CPU take gate and up from alternate
rows. Needs requirements-sglang.txt.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "capture"))

from making import Made, each_alone, prompt, record

RUNS = (
    ("m2", "bfloat16", "m2", None),
    ("m2", "float16", "m2", None),
    ("vision", "float16", "m3", "model.layers.1.mlp.gate"),
)
"""Case, SGLang's type, prompt, and where it is wrong."""

SETTINGS = {
    "attention_backend": "torch_native",
    "device": "cpu",
    "disable_radix_cache": True,
    "grammar_backend": "none",
    "max_running_requests": 2,
    "max_total_tokens": 512,
    "mem_fraction_static": 0.05,
    "sampling_backend": "pytorch",
}
"""What SGLang needs on a small machine without a GPU."""

TOWER = {"image_size": 64, "vision_segment_max_frames": 4}
"""What SGLang's vision tower wants to be told, and no text goes through."""


def main() -> None:
    """Makes all."""
    dumps = {
        Made(f"{shown}-{dtype}.safetensors", case, f"a prompt at once, in {dtype}", fault): (case, dtype, shown)
        for case, dtype, shown, fault in RUNS
    }
    given = each_alone("Makes the dumps of SGLang.", dumps, one)
    from sglang_on_cpu import STAND_INS

    record(given.out, "make_sglang.py", ("sglang", "torch", "transformers"), list(dumps), STAND_INS)


def one(cases: str, out: str, case: str, dtype: str, shown: str) -> None:
    """Makes one dump."""
    import sglang_on_cpu

    sglang_on_cpu.stand_in()
    import sglang
    from capture_sglang import capture, load

    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        shutil.copytree(Path(cases) / case / "model", folder)
        config = json.loads((folder / "config.json").read_text())
        config.get("vision_config", {}).update(TOWER)
        (folder / "config.json").write_text(json.dumps(config))
        runner = load(str(folder), dtype=dtype, **SETTINGS)
        recorded = capture(runner, prompt(Path(cases), shown), decode=0)
    recorded.save(out, producer={"library": "sglang", "version": sglang.__version__})


if __name__ == "__main__":
    main()
