"""The golden cases of MiniMax-M3 with its vision tower: images, a video in chunks, and both in one prompt.

Heads of the tower have channels that do not rotate, as the released ones have; grids differ in height and width; the text
model is small and plain, since cases of its own are about it.
"""

from dataclasses import dataclass, replace

import torch
from cases import Case
from m3_cases import M3Sizes

Grid = tuple[int, int, int]
"""Patches in time, height and width."""

IMAGE_TOKEN, VIDEO_TOKEN = 5, 6
"""Tokens of a small vocabulary that stand for features."""


@dataclass(frozen=True)
class TowerSizes:
    """The numbers of `vision_config` that differ from case to case, by their names there."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    patch_size: int
    rope_theta: float = 10_000.0


@dataclass(frozen=True)
class VisionSizes(M3Sizes):
    """The text model's numbers, the tower's, and the projector's."""

    tower: TowerSizes | None = None
    projector_hidden_size: int = 0


@dataclass(frozen=True)
class VisionCase(Case):
    """A case whose prompt shows something: text, then the places of each image and video, text between them."""

    images: tuple[Grid, ...] = ()
    videos: tuple[Grid, ...] = ()


TEXT = {
    "vocab_size": 160,
    "hidden_size": 40,
    "intermediate_size": 20,
    "dense_intermediate_size": 36,
    "shared_intermediate_size": 28,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "rotary_dim": 8,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "moe_layer_freq": (0, 1),
    "sparse_attention_freq": (0, 0),
    "sparse_index_dim": 12,
    "sparse_block_size": 4,
    "sparse_topk_blocks": 3,
}
"""A dense layer, then one of experts, both with full attention."""

IMAGES = VisionCase(
    name="vision-images-f32",
    description="Two images of different grids in one prompt, each of which sees itself alone; heads of 20 channels, of "
    "which 18 rotate.",
    sizes=VisionSizes(
        **TEXT,
        tower=TowerSizes(
            hidden_size=40, intermediate_size=72, num_hidden_layers=3, num_attention_heads=2, patch_size=4
        ),
        projector_hidden_size=52,
    ),
    seed=7,
    prompt_length=9,
    images=((1, 4, 6), (1, 8, 4)),
)

CASES = (
    IMAGES,
    replace(
        IMAGES,
        name="vision-video-f32",
        description="A video of three chunks, the last shorter, which the tower takes as grids of their own; heads of 28 "
        "channels, of which 24 rotate; patches of three pixels a side.",
        sizes=VisionSizes(
            **TEXT,
            tower=TowerSizes(
                hidden_size=56, intermediate_size=60, num_hidden_layers=2, num_attention_heads=2, patch_size=3
            ),
            projector_hidden_size=44,
        ),
        seed=1,
        images=(),
        videos=((4, 4, 2), (4, 4, 2), (1, 4, 2)),
    ),
    replace(
        IMAGES,
        name="vision-both-f32",
        description="An image between texts and a video of two chunks before it: the tower takes the image first.",
        seed=5,
        images=((1, 4, 4),),
        videos=((2, 2, 6), (1, 2, 6)),
    ),
    replace(
        IMAGES,
        name="vision-images-bf16",
        description="bfloat16 weights and activations, the patch embedding's weight in float32 as released; two images.",
        seed=3,
        images=((1, 6, 4), (1, 2, 4)),
        stored=torch.bfloat16,
        computed=torch.bfloat16,
    ),
)
