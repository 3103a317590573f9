"""Makes the dumps of vLLM's model classes on a CPU; `vllm_on_cpu.py` says what of them is real.

    python tools/engines/make_vllm.py --cases fixtures/golden-engines/cases --out fixtures/golden-engines/vllm

Needs requirements-vllm.txt.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "capture"))

from making import FIRST_AND_EXPERTS, Made, each_alone, prompt, record

RUNS = (
    ("m2", "float32", "m2", "a prompt at once"),
    ("m2", "bfloat16", "packed", "two requests packed into one step"),
    ("vision", "float32", "m3", "a prompt at once"),
    ("vision", "bfloat16", "image", "a prompt with an image"),
)
"""Case, vLLM's type, prompt, and what it is about."""


def main() -> None:
    """Makes all."""
    dumps = {
        Made(f"{case}-{shown}-{dtype}.safetensors", case, f"{what}, in {dtype}"): (case, dtype, shown)
        for case, dtype, shown, what in RUNS
    }
    given = each_alone("Makes the dumps of vLLM.", dumps, one)
    from vllm_on_cpu import STAND_INS

    record(given.out, "make_vllm.py", ("vllm", "torch", "transformers"), list(dumps), STAND_INS)


def one(cases: str, out: str, case: str, dtype: str, shown: str) -> None:
    """Makes one dump."""
    import torch
    import vllm
    from served import ServedCapture
    from vllm_attention import REQUESTS
    from vllm_on_cpu import model_of

    folder = Path(cases) / case
    tokens = prompt(Path(cases), {"packed": "m2", "image": "vision"}.get(shown, shown))
    positions = list(range(len(tokens)))
    if shown == "packed":
        other = tokens[6::-1]
        REQUESTS[:] = [len(tokens), len(other)]
        tokens, positions = tokens + other, positions + list(range(len(other)))
    ids, places = torch.tensor(tokens), torch.tensor(positions)
    with model_of(folder / "model", dtype, case) as model:
        with ServedCapture(model, exclude=("logits", *FIRST_AND_EXPERTS)) as capture:
            if shown == "image":
                from safetensors.torch import load_file

                pixels = load_file(folder / "pixels.safetensors")
                features = model.embed_multimodal(**pixels)
                is_image = ids == model.config.image_token_index
                embedded = model.embed_input_ids(ids, features, is_multimodal=is_image)
                hidden = model(None, places, inputs_embeds=embedded)
            else:
                hidden = model(ids, places)
            model.compute_logits(hidden)
        said = {} if shown == "packed" else {"tokens": tokens}
        capture.save(out, producer={"library": "vllm", "version": vllm.__version__}, **said)


if __name__ == "__main__":
    main()
