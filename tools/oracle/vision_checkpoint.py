"""The config.json of a vision case, and what its weights are drawn from."""

import math
from collections.abc import Iterator
from dataclasses import asdict, replace

import m3_checkpoint
from cases import Case
from drawing import Drawn, matrix
from m3_cases import M3Sizes
from vision_cases import IMAGE_TOKEN, VIDEO_TOKEN, VisionSizes

CHANNELS, FRAMES, MERGE = 3, 2, 2
"""Colours and frames of a patch, and patches to a side of what becomes one token."""


def text_sizes(sizes: VisionSizes) -> M3Sizes:
    """The sizes of the text model alone."""
    own = M3Sizes.__dataclass_fields__
    return M3Sizes(**{name: value for name, value in vars(sizes).items() if name in own})


def hub_config(case: Case) -> dict[str, object]:
    """The released config.json of M3 with the sizes of `case`."""
    document = m3_checkpoint.hub_config(replace(case, sizes=text_sizes(case.sizes)))
    tower = asdict(case.sizes.tower) | {
        "hidden_act": "gelu",
        "img_token_compression_config": {
            "image_token_compression_method": "patch_merge",
            "spatial_merge_size": MERGE,
            "temporal_patch_size": FRAMES,
        },
        "layer_norm_eps": 1e-5,
        "model_type": "clip_vision_model",
        "num_channels": CHANNELS,
        "position_embedding_type": "rope",
        "rope_mode": "3d",
    }
    more = {
        "image_token_index": IMAGE_TOKEN,
        "multimodal_projector_bias": True,
        "projector_hidden_act": "gelu",
        "projector_hidden_size": case.sizes.projector_hidden_size,
        "video_token_index": VIDEO_TOKEN,
        "vision_config": dict(sorted(tower.items())),
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
    }
    return dict(sorted((document | more).items()))


def weights(s: VisionSizes) -> Iterator[Drawn]:
    """All tensors: the text model's, then the tower's.

    Scores of the tower's attention spread by two, so that a patch attends to some others; norms lie around 1, biases
    around 0, both wide enough to show; features are as large as the text's embeddings.
    """
    yield from m3_checkpoint.weights(text_sizes(s))
    tower, vision = s.tower, "vision_tower.vision_model"
    c, inner, p, h = tower.hidden_size, tower.intermediate_size, s.projector_hidden_size, s.hidden_size

    def norm(name: str) -> Iterator[Drawn]:
        yield Drawn(f"{name}.weight", (c,), 1.0, 0.3)
        yield Drawn(f"{name}.bias", (c,), 0.0, 0.3)

    def linear(name: str, outputs: int, inputs: int, gain: float) -> Iterator[Drawn]:
        yield matrix(f"{name}.weight", outputs, inputs, gain)
        yield Drawn(f"{name}.bias", (outputs,), 0.0, 0.2)

    kernel = (CHANNELS, FRAMES, tower.patch_size, tower.patch_size)
    yield Drawn(f"{vision}.embeddings.patch_embedding.weight", (c, *kernel), 0.0, 1.0 / math.sqrt(math.prod(kernel)))
    yield from norm(f"{vision}.pre_layrnorm")
    for index in range(tower.num_hidden_layers):
        layer = f"{vision}.encoder.layers.{index}"
        yield from norm(f"{layer}.layer_norm1")
        for name, gain in (("q", 1.5), ("k", 1.5), ("v", 1.0), ("out", 1.5)):
            yield from linear(f"{layer}.self_attn.{name}_proj", c, c, gain)
        yield from norm(f"{layer}.layer_norm2")
        yield from linear(f"{layer}.mlp.fc1", inner, c, 2.0)
        yield from linear(f"{layer}.mlp.fc2", c, inner, 0.7)
    yield from linear("multi_modal_projector.linear_1", p, c, 1.0)
    yield from linear("multi_modal_projector.linear_2", h, p, 1.5)
    yield from linear("patch_merge_mlp.linear_1", p, MERGE * MERGE * h, 1.0)
    yield from linear("patch_merge_mlp.linear_2", h, p, 0.5)
