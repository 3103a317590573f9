"""The families of models, and what the makers need of each."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import m2_checkpoint
import m2_model
import m2_properties
import m3_checkpoint
import m3_model
import m3_properties
import torch
import vision_checkpoint
import vision_model
import vision_properties
from cases import Case, Sizes
from drawing import Drawn
from m2_cases import CASES as M2_CASES
from m2_mistakes import MISTAKES as M2_MISTAKES
from m3_cases import CASES as M3_CASES
from m3_mistakes import MISTAKES as M3_MISTAKES
from mistakes import Mistake
from torch import Tensor
from transformers import PreTrainedModel
from vision_cases import CASES as VISION_CASES
from vision_mistakes import MISTAKES as VISION_MISTAKES


class Family(NamedTuple):
    """What a family has of its own."""

    cases: tuple[Case, ...]
    """The first is the plain one, in which most mistakes are made."""
    config: Callable[[Case], dict[str, object]]
    weights: Callable[[Sizes], Iterator[Drawn]]
    load: Callable[[Path, torch.dtype], PreTrainedModel]
    """The model as it was released, in plain operators."""
    from_pretrained: Callable[..., PreTrainedModel]
    """The model as people load it, with options of the library's."""
    modes: tuple[str, ...]
    """How the sweep calls it."""
    properties: Callable[..., dict[str, int | float]]
    least: Mapping[str, float]
    mistakes: Mapping[str, Mistake]
    prompt: Callable[[Case, torch.Generator], list[int]]
    shown: Callable[[Case, torch.Generator], dict[str, Tensor]]
    """What the prompt shows, by the names of the model's arguments."""


def random_prompt(case: Case, draw: torch.Generator) -> list[int]:
    """Any tokens."""
    return torch.randint(case.sizes.vocab_size, (case.prompt_length,), generator=draw).tolist()


def nothing(case: Case, draw: torch.Generator) -> dict[str, Tensor]:
    """Of a model that does not see."""
    return {}


FAMILIES = {
    "m2": Family(
        M2_CASES,
        m2_checkpoint.hub_config,
        m2_checkpoint.weights,
        m2_model.load,
        m2_model.from_pretrained,
        m2_model.MODES,
        m2_properties.properties,
        m2_properties.LEAST,
        M2_MISTAKES,
        random_prompt,
        nothing,
    ),
    "m3": Family(
        M3_CASES,
        m3_checkpoint.hub_config,
        m3_checkpoint.weights,
        m3_model.load,
        m3_model.from_pretrained,
        m3_model.MODES,
        m3_properties.properties,
        m3_properties.LEAST,
        M3_MISTAKES,
        random_prompt,
        nothing,
    ),
    "vision": Family(
        VISION_CASES,
        vision_checkpoint.hub_config,
        vision_checkpoint.weights,
        vision_model.load,
        vision_model.from_pretrained,
        vision_model.MODES,
        vision_properties.properties,
        vision_properties.LEAST,
        VISION_MISTAKES,
        vision_model.prompt,
        vision_model.shown,
    ),
}
"""By the first part of their cases' names."""

CASES = tuple(case for family in FAMILIES.values() for case in family.cases)


def family_of(case: str) -> Family:
    """The family of the case with this name."""
    return FAMILIES[case.partition("-")[0]]
