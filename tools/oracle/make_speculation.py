"""Makes what `generate(use_mtp=True)` says of an M3 model with modules of multi-token prediction, and what it drafts.

    python tools/oracle/make_speculation.py --golden fixtures/golden --out fixtures/golden-speculation

Needs exactly the versions in requirements.txt. The model is a golden case's, whose layers before the last, and its
attention, which is block-sparse there and full in modules, add little to the stream; a module repeats the last layer and
the norm behind it, of the next token's embedding and a little of the hidden state, so that drafts are accepted often and
not always. The modules have full attention, as `make_mtp.py` has it. The library's reader of modules does not know the
hub's names of M3's: it is given the modules; all else is `generate`'s own. The folder has

    model/           config.json and the tensors, those of the modules among them
    index.json       the case, the prompt, the tokens that were made, and of each round the drafts and how many of them
                     were accepted
    provenance.json  command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
import json
import shutil
from pathlib import Path
from unittest.mock import patch

import torch
from filled import of_cases
from m3_cases import PLAIN
from m3_model import load
from make_mtp import MODULES, SPARSE, WIDE, modules
from model import prepare_library
from provenance import SCHEMA, record, write_json
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, modeling_layers
from transformers.generation.candidate_generator import MTPCandidateGenerator
from transformers.modeling_layers import MtpModel

TOKENS = 40
QUIET = 1 / 16
"""What these add to the stream, beside what the case's do."""

HEARD = 1 / 4
"""What a module takes of the hidden state, beside the embedding."""

ATTENTION = "o_proj.weight"
WRITING = (ATTENTION, "down_proj.weight", "w2.weight")
"""Endings of the names of what adds to the stream."""


def main() -> None:
    """Makes the folder."""
    of_cases("Makes what a model with modules of multi-token prediction says and drafts.", make)


def stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in the type in which it is stored: the router's in float32, all others in bfloat16."""
    return tensor.float() if name.endswith(WIDE) else tensor.to(torch.bfloat16)


def quieted(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A model's tensors, of which the layers before the last add less."""
    last = f".layers.{PLAIN.sizes.num_hidden_layers - 1}."
    return {
        name: stored(name, QUIET * tensor if name.endswith(WRITING if last not in name else ATTENTION) else tensor)
        for name, tensor in tensors.items()
    }


def repeating(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The modules' tensors: the embedding as it is, then the model's last layer and norm."""
    h, made = PLAIN.sizes.hidden_size, {}
    last = f"language_model.model.layers.{PLAIN.sizes.num_hidden_layers - 1}."
    for module in range(MODULES):
        path = f"language_model.model.mtp.layers.{module}"
        for norm in ("enorm", "hnorm"):
            made[f"{path}.{norm}.weight"] = torch.zeros(h, dtype=torch.bfloat16)
        both = torch.cat([torch.eye(h), HEARD * torch.eye(h)], 1)
        made[f"{path}.eh_proj.weight"] = both.to(torch.bfloat16)
        made[f"{path}.final_layernorm.weight"] = tensors["language_model.model.norm.weight"].clone()
        for name, tensor in tensors.items():
            if name.startswith(last):
                made[f"{path}.transformer_layer.{name.removeprefix(last)}"] = tensor.clone()
    return made


class Rounds:
    """What `generate` drafts, round by round, and how many drafts it accepts."""

    def __init__(self) -> None:
        """Of no round yet."""
        self.seen: list[dict[str, object]] = []

    def watching(self, mtp: MtpModel) -> tuple[object, object]:
        """Patches under which `generate` drafts by `mtp` and is watched."""
        own = MTPCandidateGenerator.get_candidates

        def get_candidates(generator: MTPCandidateGenerator, ids: torch.Tensor, **told: object) -> object:
            if self.seen:
                self.seen[-1]["accepted"] = int(told["n_last_matches"])
            candidates = own(generator, ids, **told)
            drafts = candidates[0][0, ids.shape[1] :].tolist()
            if drafts:
                self.seen.append({"drafts": drafts})
            return candidates

        reader = classmethod(lambda cls, model, **options: mtp)
        return patch.object(MtpModel, "from_pretrained", reader), patch.object(
            MTPCandidateGenerator, "get_candidates", get_candidates
        )

    def end(self, made: int) -> list[dict[str, object]]:
        """All rounds, of which the last one made what was lacking of so many tokens: the first is no round's."""
        before = 1 + sum(1 + int(round["accepted"]) for round in self.seen[:-1])
        self.seen[-1]["accepted"] = made - before - 1
        return self.seen


@torch.no_grad()
def generated(model: PreTrainedModel, prompt: list[int], mtp: MtpModel) -> tuple[list[int], list[dict[str, object]]]:
    """The tokens after a prompt, and the rounds."""
    rounds = Rounds()
    reader, drafts = rounds.watching(mtp)
    with reader, drafts:
        options = {"do_sample": False, "max_new_tokens": TOKENS, "eos_token_id": None, "pad_token_id": 0}
        text = model.generate(torch.tensor([prompt]), use_mtp=True, **options)
    tokens = text[0, len(prompt) :].tolist()
    return tokens, rounds.end(len(tokens))


def make(golden: Path, folder: Path) -> None:
    """Writes all files into `folder`, which is empty."""
    prepare_library()
    # The library's table has a mask for M3's layers that its modules do not take; without it they get the causal one.
    modeling_layers.LAYER_PATTERN_TO_MASK_FUNCTION_MAPPING.pop(SPARSE, None)
    case, own = golden / PLAIN.name, folder / "model"
    own.mkdir()
    tensors = quieted(load_file(case / "model" / "model.safetensors"))
    of_modules = repeating(tensors)
    save_file(tensors | of_modules, own / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(case / "model" / "config.json", own / "config.json")
    model = load(own, torch.float32)
    prompt = json.loads((case / "case.json").read_text())["tokens"]
    tokens, rounds = generated(model, prompt, modules(model, of_modules, MODULES, "full_attention"))
    said = {"schema": SCHEMA, "case": PLAIN.name, "prompt": prompt, "tokens": tokens, "rounds": rounds}
    write_json(folder / "index.json", said)
    record(folder, "make_speculation.py --golden fixtures/golden --out fixtures/golden-speculation")


if __name__ == "__main__":
    main()
