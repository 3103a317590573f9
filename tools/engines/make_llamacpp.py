"""Makes the dumps of llama.cpp.

    python tools/engines/make_llamacpp.py --cases fixtures/golden-engines/cases --out fixtures/golden-engines/llama.cpp
        --source FOLDER

FOLDER is llama.cpp's source as llama-cpp-python has it in vendor/llama.cpp, for its own conversion of checkpoints: only
the vocabulary, which these have not, is left out. Nothing stands in for anything. Needs requirements-llamacpp.txt.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from making import Made, arguments, prompt, record
from safetensors import safe_open
from safetensors.torch import save_file

RECIPE = Path(__file__).parent.parent / "capture" / "llamacpp.py"
"""What makes a dump, as a user would."""

LEFT_OUT = re.compile(r"(?<!l_out)-0(#\d+)?$|(^|\.)(msa_|kq-|kq_soft_max-|kqv-|norm|__fattn__)")
"""Names that dumps of this size need not have."""

RUNS = (
    ("m2", "f32", "defaults: keys and values in f16, flash attention", (), None),
    ("m2", "bf16", "weights in bf16, and four greedy tokens", ("--decode", "4"), None),
    ("m3", "f32", "defaults: keys and values in f16, flash attention", (), None),
    (
        "m3",
        "f32",
        "without flash attention, sparse layers attend to all tokens",
        ("--flash-attention", "off"),
        "model.layers.1.self_attn.context",
    ),
)
"""Case, type of the weights' file, what it is about, options, and where it is wrong."""


def main() -> None:
    """Makes all."""
    given = arguments("Makes the dumps of llama.cpp.", source="llama.cpp's source")
    made = []
    with TemporaryDirectory() as temporary:
        for case, stored, what, options, fault in RUNS:
            model = Path(temporary) / f"{case}-{stored}.gguf"
            if not model.exists():
                convert(given.source, given.cases / case / "model", model, stored)
            name = "-".join([case, stored, *(option.strip("-") for option in options)]) + ".safetensors"
            tokens = ",".join(map(str, prompt(given.cases, case)))
            recipe = [sys.executable, RECIPE, model, "--tokens", tokens, "--out", given.out / name, *options]
            subprocess.run(recipe, check=True)
            shorten(given.out / name)
            made.append(Made(name, case, what, fault))
    packages = ("llama_cpp_python", "numpy", "torch")
    record(given.out, "make_llamacpp.py", packages, made, options=("--source", "FOLDER"))


def shorten(path: Path) -> None:
    """Leaves out what is inside the first layer, and masks and scores that are padded to the cache."""
    with safe_open(path, "pt") as dump:
        names, said = dump.keys(), dump.metadata()
        kept = [name for name in names if not LEFT_OUT.search(name)]
        tensors = {name: dump.get_tensor(name) for name in kept}
    save_file(tensors, path, said)


def convert(source: Path, folder: Path, out: Path, stored: str) -> None:
    """Writes a checkpoint as a GGUF file, by llama.cpp's own conversion."""
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    import gguf
    import torch
    from conversion import base, minimax

    def without_vocabulary(self) -> None:
        self.gguf_writer.add_tokenizer_model("none")
        self.gguf_writer.add_vocab_size(self.find_hparam(["vocab_size"]))

    base.TextModel.set_vocab = without_vocabulary
    types = {"f32": gguf.LlamaFileType.ALL_F32, "bf16": gguf.LlamaFileType.MOSTLY_BF16}
    config = json.loads((folder / "config.json").read_text())
    family = minimax.MiniMaxM2Model if "M2" in config["architectures"][0] else minimax.MiniMaxM3Model
    with torch.inference_mode():
        family(folder, types[stored], out, hparams=config).write()


if __name__ == "__main__":
    main()
