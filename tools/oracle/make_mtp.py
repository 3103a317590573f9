"""Makes what transformers' generic modules of multi-token prediction compute beside a golden case's M3.

    python tools/oracle/make_mtp.py --golden fixtures/golden --out fixtures/golden-mtp

Needs exactly the versions in requirements.txt. The modules are `MtpModel`'s, run in two ways:

    series   as `generate` runs them: a module for each draft, each a layer of full attention and experts, its rows
             at the positions of their tokens; after the first round of drafts two tokens are verified, the rows that
             drafts made are cropped from the caches, and a second round follows
    one      as vLLM runs M3's: one module makes all drafts, a layer of block-sparse attention and experts, its rows at
             the positions of their hidden states, its embedding zero at position 0, each further draft from its own
             output before the norm

With block-sparse layers the first way is not used: the library's index branch would count positions of queries from one
further than those of keys. The folder has

    modules.safetensors   the modules' weights by the hub's names, as the case's own would be
    expected.safetensors  WAY.ROUND.DRAFT.output and .logits: of the layer behind the norm, the logits of the last rows;
                          WAY.ROUND.hidden, what the first module reads of the model
    index.json            the case, and for each way and round the tokens, the first row, and the drafts
    provenance.json       command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from drawing import Drawn, matrix
from filled import of_cases
from m3_cases import PLAIN
from m3_checkpoint import weights
from m3_model import load
from model import prepare_library
from provenance import SCHEMA, record, write_json
from safetensors.torch import save_file
from transformers import PreTrainedModel, modeling_layers
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

MODULES = 2
DRAFTS = 3
"""Of the one module."""

SEED = 71
ROWS = 3
"""Rows of logits that are kept, the last."""

STORED = torch.bfloat16
WIDE = ("gate.weight", "e_score_correction_bias")
"""Endings of the names of what is float32 always: the router."""

SPARSE = "minimax_m3_sparse"

RENAMED = (
    ("final_layernorm", "post_norm"),
    ("transformer_layer.block_sparse_moe.e_score", "mtp_block.mlp.gate.e_score"),
    ("transformer_layer.block_sparse_moe.", "mtp_block.mlp."),
    ("transformer_layer.", "mtp_block."),
    (".index_", ".indexer."),
)
"""What the hub calls otherwise than the library."""


def main() -> None:
    """Makes the folder."""
    of_cases("Makes what generic modules of multi-token prediction compute.", make)


def drawn() -> Iterator[Drawn]:
    """The modules' tensors. Each is like a layer of the case, whose norms before the projection are around 0, too."""
    last = f"language_model.model.layers.{PLAIN.sizes.num_hidden_layers - 1}."
    h = PLAIN.sizes.hidden_size
    for module in range(MODULES):
        path = f"language_model.model.mtp.layers.{module}"
        for norm in ("enorm", "hnorm", "final_layernorm"):
            yield Drawn(f"{path}.{norm}.weight", (h,), 0.0, 0.3)
        yield matrix(f"{path}.eh_proj.weight", h, 2 * h, 1.0)
        for tensor in weights(PLAIN.sizes):
            if tensor.name.startswith(last):
                yield tensor._replace(name=f"{path}.transformer_layer.{tensor.name.removeprefix(last)}")


def tensors() -> dict[str, torch.Tensor]:
    """All weights by their names, in the types in which they are stored."""
    draw = torch.Generator().manual_seed(SEED)
    made = {}
    for name, shape, mean, deviation in drawn():
        values = mean + deviation * torch.randn(shape, generator=draw, dtype=torch.float64)
        made[name] = values.to(torch.float32 if name.endswith(WIDE) else STORED)
    return made


def of_library(stored: dict[str, torch.Tensor], kind: str) -> dict[str, torch.Tensor]:
    """The same by the names of the library's modules, in float32: experts stacked, gate above up."""
    wide = {name.removeprefix("language_model.model.mtp."): tensor.float() for name, tensor in stored.items()}
    made = {}
    for module in range(MODULES):
        moe = f"layers.{module}.transformer_layer.block_sparse_moe"
        block = f"layers.{module}.mtp_block.mlp"
        w1, w2, w3 = (
            torch.stack([wide.pop(f"{moe}.experts.{e}.{one}.weight") for e in range(PLAIN.sizes.num_local_experts)])
            for one in ("w1", "w2", "w3")
        )
        made[f"{block}.experts.gate_up_proj"] = torch.cat([w1, w3], 1)
        made[f"{block}.experts.down_proj"] = w2
        gate_up = [wide.pop(f"{moe}.shared_experts.{one}_proj.weight") for one in ("gate", "up")]
        made[f"{block}.shared_experts.gate_up_proj.weight"] = torch.cat(gate_up)
    for name, tensor in wide.items():
        for old, new in RENAMED:
            name = name.replace(old, new)
        if ".indexer." not in name or kind == SPARSE:
            made[name] = tensor
    return made


def modules(model: PreTrainedModel, stored: dict[str, torch.Tensor], count: int, kind: str) -> MtpModel:
    """So many of the library's modules with these weights, their attention of a kind."""
    model.config.num_mtp_layers = count
    model.config.mtp_layer_types = [kind] * count
    model.config.mtp_mlp_layer_types = ["sparse"] * count
    made = MtpModel(model, count).eval()
    wanted = {name: tensor for name, tensor in of_library(stored, kind).items() if int(name.split(".")[1]) < count}
    report = made.load_state_dict(wanted, strict=False)
    missing = [name for name in report.missing_keys if name.startswith("layers.")]
    if missing or report.unexpected_keys:
        raise RuntimeError(f"expected every tensor to find its place, found {missing}, {report.unexpected_keys}")
    return made


class Text:
    """The prompt, what the model says after it, and the hidden states of all but the last token."""

    def __init__(self, model: PreTrainedModel, prompt: list[int]) -> None:
        """After the prompt and the first token."""
        self.model, self.tokens, self.hidden = model, list(prompt), torch.empty(0)
        self.go_on()

    def go_on(self) -> None:
        """One token more."""
        self.hidden = self.model.model(torch.tensor([self.tokens]), use_cache=False).last_hidden_state
        self.tokens.append(int(self.model.lm_head(self.hidden[:, -1]).argmax()))


@torch.no_grad()
def make(golden: Path, folder: Path) -> None:
    """Writes all files into `folder`, which is empty."""
    prepare_library()
    # The library's table has a mask for M3's layers that its modules do not take; without it they get the causal one.
    modeling_layers.LAYER_PATTERN_TO_MASK_FUNCTION_MAPPING.pop(SPARSE, None)
    case = golden / PLAIN.name
    model = load(case / "model", torch.float32)
    prompt = json.loads((case / "case.json").read_text())["tokens"]
    stored = tensors()
    save_file(stored, folder / "modules.safetensors", metadata={"format": "pt"})
    kept: dict[str, torch.Tensor] = {}
    rounds = [*in_series(model, prompt, stored, kept), by_one(model, prompt, stored, kept)]
    save_file({name: tensor.contiguous() for name, tensor in kept.items()}, folder / "expected.safetensors")
    write_json(folder / "index.json", {"schema": SCHEMA, "case": PLAIN.name, "seed": SEED, "rounds": rounds})
    record(folder, "make_mtp.py --golden fixtures/golden --out fixtures/golden-mtp")


def in_series(model: PreTrainedModel, prompt: list[int], stored: dict, kept: dict) -> Iterator[dict[str, object]]:
    """Two rounds of a module a draft."""
    mtp = modules(model, stored, MODULES, "full_attention")
    cache = MtpCache(config=mtp.config)
    text, first = Text(model, prompt), 0
    for number in range(2):
        ids, drafts = text.tokens[first + 1 :], []
        h = text.hidden[:, first:]
        kept[f"series.{number}.hidden"] = h[0]
        for module in range(MODULES):
            positions = torch.arange(first, first + len(ids))[None] + module + 1
            h = mtp.forward_layer(module, h, positions, cache, input_ids=torch.tensor([ids]))
            drafts.append(keep(mtp, h, f"series.{number}.{module}", kept))
            ids = [*ids[1:], drafts[-1]]
        yield {"way": "series", "round": number, "tokens": list(text.tokens), "first": first, "drafts": drafts}
        text.go_on()
        text.go_on()
        first = len(prompt) - (MODULES - 1)
        cache.crop(first - len(prompt))


def by_one(model: PreTrainedModel, prompt: list[int], stored: dict, kept: dict) -> dict[str, object]:
    """One round of one module for all drafts."""
    mtp = modules(model, stored, 1, SPARSE)
    cache = MtpCache(config=mtp.config)
    before_norm: list[torch.Tensor] = []
    mtp.layers[0].post_norm.register_forward_pre_hook(lambda _, inputs: before_norm.append(inputs[0]))
    text, drafts = Text(model, prompt), []
    ids, h = text.tokens[1:], text.hidden
    kept["one.0.hidden"] = h[0]
    for number in range(DRAFTS):
        first = 0 if number == 0 else len(prompt) + number - 1
        positions = torch.arange(first, first + len(ids))[None]
        e = mtp.embed_tokens(torch.tensor([ids])) * (positions > 0)[..., None]
        y = mtp.forward_layer(0, h, positions, cache, inputs_embeds=e)
        drafts.append(keep(mtp, y, f"one.0.{number}", kept))
        ids, h = drafts[-1:], before_norm[-1][:, -1:]
    return {"way": "one", "round": 0, "tokens": list(text.tokens), "first": 0, "drafts": drafts}


def keep(mtp: MtpModel, output: torch.Tensor, name: str, kept: dict[str, torch.Tensor]) -> int:
    """Keeps a module's output and its last rows' logits; the token that the last says."""
    logits = mtp._project_to_logits(output[:, -ROWS:])
    kept[f"{name}.output"], kept[f"{name}.logits"] = output[0], logits[0]
    return int(logits[0, -1].argmax())


if __name__ == "__main__":
    main()
