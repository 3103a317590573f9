"""Makes quantized checkpoints with the transformers library, and what it computes from them.

    python tools/oracle/make_quantized.py --cases fixtures/golden-engines/cases --out fixtures/golden-quantized

Needs exactly the versions in requirements-quantized.txt. The library quantizes the matrices of a bfloat16 checkpoint and
loads them again: without a GPU it takes them to bfloat16 then, so that only weights are quantized. The folder has

    CASE/model/              the checkpoint, in the hub's format
    CASE/dump.safetensors    what every module computed
    CASE/inputs.safetensors  the same where inputs of quantized matrices are quantized, too, as on a GPU, in a few lines
                             of torch; of powers of two, because bfloat16 holds what these scale
    index.json               each dump's file, case, and the checkpoint in `--cases` of which it is
    provenance.json          command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from capturing import Capture
from filled import filled
from model import prepare_library
from provenance import record, require_pins, write_index
from safetensors.torch import load_file, save_file
from sweep_cells import Cell
from sweep_dumps import captured, load
from torch import Tensor
from torch.nn import functional
from transformers import FineGrainedFP8Config, PreTrainedModel
from transformers.integrations.finegrained_fp8 import Fp8Quantize

REQUIREMENTS = "requirements-quantized.txt"

KEPT = ("gate.weight", "e_score_correction_bias", "embed_tokens.weight", "lm_head.weight")
"""What is not quantized, by the ends of names; nor is anything outside of the decoder layers, or of one extent."""


class Quantized(NamedTuple):
    """A checkpoint: of which case, named as its family, its `quantization_config`, and what its scales are stored in."""

    name: str
    case: str
    config: dict[str, object]
    powers: bool


CASES = (
    Quantized(
        "m2-fp8",
        "m2",
        {
            "activation_scheme": "dynamic",
            "fmt": "float8_e4m3fn",
            "quant_method": "fp8",
            "weight_block_size": [16, 16],
            "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"],
        },
        powers=False,
    ),
    Quantized(
        "m3-mxfp8",
        "m3",
        {
            "activation_scheme": "dynamic",
            "quant_method": "mxfp8",
            "weight_block_size": [1, 32],
            "ignored_layers": ["lm_head", "model.embed_tokens", "model.layers.1.block_sparse_moe.gate"],
        },
        powers=True,
    ),
)
"""Quantized as M2.7 and M3 are released, but for smaller blocks in M2's."""


def main() -> None:
    """Makes them all."""
    require = partial(require_pins, REQUIREMENTS)
    filled("Makes quantized checkpoints, and dumps of them.", make, require, cases="fixtures/golden-engines/cases")


def make(cases: Path, folder: Path) -> None:
    """Fills `folder`, which is empty, from the checkpoints in `cases`."""
    prepare_library()
    for case in CASES:
        _make(case, cases / case.case, folder / case.name)
    write_index(folder, [{"file": file, "case": case.name, "of": case.case} for case in CASES for file in _files(case)])
    command = "make_quantized.py --cases fixtures/golden-engines/cases --out fixtures/golden-quantized"
    record(folder, command, others=("accelerate",))


def _make(case: Quantized, source: Path, folder: Path) -> None:
    model = folder / "model"
    model.mkdir(parents=True)
    config = json.loads((source / "model" / "config.json").read_text())
    config["quantization_config"] = case.config
    (model / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = load_file(source / "model" / "model.safetensors")
    save_file(_quantized(case, tensors), model / "model.safetensors", metadata={"format": "pt"})
    tokens = json.loads((source / "case.json").read_text())["tokens"]
    cell = Cell(case.case, "bf16", "sdpa", "default", "prefill", "all")
    captured(cell, model, tokens, {}).save(folder / "dump.safetensors")
    if case.powers:
        loaded = load(model, cell._replace(experts="eager"))
        group = case.config["weight_block_size"][1]
        with _inputs_quantized(loaded, group), torch.no_grad(), Capture(loaded) as capture:
            loaded(torch.tensor([tokens]))
        capture.save(folder / "inputs.safetensors")


def _files(case: Quantized) -> list[str]:
    return [f"{case.name}/{file}.safetensors" for file in (("dump", "inputs") if case.powers else ("dump",))]


@contextmanager
def _inputs_quantized(model: PreTrainedModel, group: int) -> Iterator[None]:
    """Quantizes the input of every product with a quantized matrix: of so many channels each by a power of two.

    Those of the text model that are not quantized are the router's, which stay in float32, and the head.
    """
    head = model.get_output_embeddings().weight
    linear = functional.linear

    def quantized(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if is_quantized(weight):
            groups = x.float().unflatten(-1, (-1, group))
            largest = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10)
            scale = torch.exp2(torch.ceil(torch.log2(largest / 448)))
            codes = (groups / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
            x = (codes.float() * scale).flatten(-2).to(x.dtype)
        return linear(x, weight, bias)

    def is_quantized(weight: Tensor) -> bool:
        return weight.dtype == torch.bfloat16 and weight.data_ptr() != head.data_ptr()

    functional.linear = quantized
    try:
        yield
    finally:
        functional.linear = linear


def _quantized(case: Quantized, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    how = FineGrainedFP8Config(
        weight_block_size=case.config["weight_block_size"], scale_fmt="ue8m0" if case.powers else "float"
    )
    quantize = Fp8Quantize(SimpleNamespace(quantization_config=how))
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        is_kept = tensor.ndim < 2 or ".layers." not in name or name.endswith(KEPT)
        made |= {name: tensor} if is_kept else quantize.convert({name: tensor})
    # Released files have the bytes of powers of two, which the library reads as such.
    is_power = {name: tensor.dtype == torch.float8_e8m0fnu for name, tensor in made.items()}
    return {name: tensor.view(torch.uint8) if is_power[name] else tensor for name, tensor in made.items()}


if __name__ == "__main__":
    main()
