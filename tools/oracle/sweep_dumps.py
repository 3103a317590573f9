"""Makes a dump of the sweep as a user would: a checkpoint, `from_pretrained`, a few lines of `capture`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from capturing import Capture
from cases import Case, Layout, Library
from checkpoint import write_checkpoint
from families import FAMILIES
from safetensors.torch import save_file
from sweep_cells import AUTOCAST, EXPERTS, SCOPES, TYPES, Cell
from torch import Tensor
from transformers import PreTrainedModel
from whole import replacing

STORED = (torch.bfloat16, torch.float32, torch.bfloat16, torch.float16)
"""Types of checkpoints, one after the other; most that are shared are bfloat16."""

DECODED = 4
SEEDS = 1000
"""Seeds of checkpoints begin here, far from those that golden cases were picked by."""

PIXELS = "pixels.safetensors"
"""What a prompt shows, beside the checkpoint."""

Shown = dict[str, Tensor]


def case_of(family: str, number: int) -> Case:
    """The checkpoint and the prompt of a number: a golden case's sizes with weights and tokens of their own.

    Experts are of widths that grouped_mm takes, the library's default: rows of whole 16 bytes.
    """
    cases = [case for case in FAMILIES[family].cases if case.library is Library.V5_23]
    case = cases[number % len(cases)]
    widths = {name: -(-getattr(case.sizes, name) // 8) * 8 for name in ("hidden_size", "intermediate_size")}
    sizes = replace(case.sizes, **widths)
    return replace(case, sizes=sizes, layout=Layout.HUB, stored=STORED[number % len(STORED)], seed=SEEDS + number)


def checkpoint(case: Case, folder: Path, shown: Shown) -> None:
    """Makes the folder of the case's checkpoint, and of what its prompt shows, if it is not there.

    What is there is not touched: verifications of other cells read it meanwhile.
    """
    if not folder.exists():
        with replacing(folder) as new:
            write_checkpoint(case, new)
            if shown:
                save_file(shown, new / PIXELS)


def load(folder: Path, cell: Cell) -> PreTrainedModel:
    """The model as people load it."""
    options = {"dtype": TYPES[cell.type], "attn_implementation": cell.attention}
    if (experts := EXPERTS[cell.experts]) is not None:
        options["experts_implementation"] = experts
    return FAMILIES[cell.family].from_pretrained(folder, **options).eval()


def _prefill(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    model(torch.tensor([tokens]), **shown)


def _generate(model: PreTrainedModel, tokens: list[int], shown: Shown, **options: Any) -> None:
    greedy = {"do_sample": False, "max_new_tokens": DECODED, "use_mtp": False, "eos_token_id": None}
    model.generate(torch.tensor([tokens]), **greedy, **shown, **options)


def _static(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    _generate(model, tokens, shown, cache_implementation="static", disable_compile=True)


def _chunks(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    cache, third = None, len(tokens) // 3 + 1
    for first in range(0, len(tokens), third):
        piece = torch.tensor([tokens[first : first + third]])
        cache = model(piece, past_key_values=cache, use_cache=True).past_key_values


def _padded(tokens: list[int], left: bool) -> dict[str, Tensor]:
    """The prompt and a shorter one, its beginning."""
    padding = len(tokens) // 3
    short, zeros = tokens[: len(tokens) - padding], [0] * padding
    ids = zeros + short if left else short + zeros
    mask = [0] * padding + [1] * len(short) if left else [1] * len(short) + [0] * padding
    return {
        "input_ids": torch.tensor([tokens, ids]),
        "attention_mask": torch.tensor([[1] * len(tokens), mask]),
    }


def _left(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    model(**_padded(tokens, left=True))


def _left_generate(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    options = {"do_sample": False, "max_new_tokens": DECODED, "use_mtp": False, "eos_token_id": None}
    model.generate(**_padded(tokens, left=True), **options, pad_token_id=0)


def _right(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    model(**_padded(tokens, left=False))


def _packed(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    """The prompt cut in three, one behind the other in one list, told apart by their positions."""
    third = len(tokens) // 3 + 1
    positions = torch.arange(len(tokens)) % third
    model(torch.tensor([tokens]), position_ids=positions[None], use_cache=False)


def _images(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    """The prompt cut in two, the first with its first image, as a batch that is padded on the right."""
    places = [token == model.config.image_token_id for token in tokens]
    cut = places.index(False, places.index(True)) + 1
    width = max(cut, len(tokens) - cut)
    rows = [part + [0] * (width - len(part)) for part in (tokens[:cut], tokens[cut:])]
    mask = [[1] * len(part) + [0] * (width - len(part)) for part in (tokens[:cut], tokens[cut:])]
    model(torch.tensor(rows), attention_mask=torch.tensor(mask), **shown)


def _turns(model: PreTrainedModel, tokens: list[int], shown: Shown) -> None:
    """The prompt cut in two, each with its images, in two calls on one cache."""
    places = [token == model.config.image_token_id for token in tokens]
    cut, grids = places.index(False, places.index(True)) + 1, shown["image_grid_thw"]
    first, cache = int(grids[0].prod()), None
    pieces = ((tokens[:cut], slice(0, first), grids[:1]), (tokens[cut:], slice(first, None), grids[1:]))
    for piece, rows, own in pieces:
        seen = {"pixel_values": shown["pixel_values"][rows], "image_grid_thw": own}
        cache = model(torch.tensor([piece]), past_key_values=cache, use_cache=True, **seen).past_key_values


RUNS: dict[str, Callable[[PreTrainedModel, list[int], Shown], None]] = {
    "prefill": _prefill,
    "generate": _generate,
    "static": _static,
    "chunks": _chunks,
    "left": _left,
    "left-generate": _left_generate,
    "right": _right,
    "packed": _packed,
    "images": _images,
    "turns": _turns,
}
"""By the cells' modes."""


@torch.no_grad()
def captured(cell: Cell, folder: Path, tokens: list[int], shown: Shown) -> Capture:
    """What a cell keeps of the model of `folder`, run on a prompt."""
    model = load(folder, cell)
    autocast = torch.autocast("cpu", AUTOCAST.get(cell.type), enabled=cell.type in AUTOCAST)
    with autocast, Capture(model, include=SCOPES[cell.scope]) as capture:
        RUNS[cell.mode](model, tokens, shown)
    return capture


def make(cell: Cell, number: int, models: Path, dump: Path) -> list[str]:
    """Writes the dump of a prompt of a cell, and gives the arguments of `parity verify` for it."""
    case, family = case_of(cell.family, number), FAMILIES[cell.family]
    draw = torch.Generator().manual_seed(case.seed)
    tokens, shown = family.prompt(case, draw), family.shown(case, draw)
    folder = models / f"{cell.family}-{number}"
    checkpoint(case, folder, shown)
    captured(cell, folder, tokens, shown).save(dump)
    given = [str(folder), str(dump)]
    return given + ["--pixels", str(folder / PIXELS)] if shown else given
