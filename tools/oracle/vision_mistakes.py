"""Known mistakes of M3's vision tower and projector."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from unittest.mock import patch

import torch
from mistakes import Inject, Mistake, everywhere, forwards, weights
from torch import Tensor, nn
from torch.nn import functional
from transformers import MiniMaxM3SparseForConditionalGeneration
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as library
from vision_checkpoint import CHANNELS, FRAMES, MERGE

Model = MiniMaxM3SparseForConditionalGeneration


def _time_first(weight: Tensor) -> Tensor:
    """What stands as colour, time, row, column is read as time, colour, row, column."""
    out, _, _, *places = weight.shape
    return weight.reshape(out, FRAMES, CHANNELS, *places).transpose(1, 2).contiguous()


def _pairs_of_each_axis(rotate: Callable, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """The angles of time, height and width each rotate a run of channels, whose halves are paired."""
    angles = cos.shape[-1] // 2
    runs = torch.arange(2 * angles).view(3, 2, angles // 3)
    to_halves = torch.cat((runs.transpose(0, 1).flatten(), torch.arange(2 * angles, q.shape[-1])))
    back = to_halves.argsort()
    return tuple(x[..., back] for x in rotate(q[..., to_halves], k[..., to_halves], cos, sin))


def _time_goes_on(place: Callable, grids: Tensor, *rest: object, **more: object) -> Tensor:
    positions = place(grids, *rest, **more)
    begins = functional.pad(grids[:, 0].cumsum(0), (1, -1))
    positions[:, 0] += begins.repeat_interleave(grids.prod(1))
    return positions


def _one_segment(
    measure: Callable, grids: Tensor, *rest: object, **more: object
) -> tuple[Tensor, int | None]:
    lengths, longest = measure(grids, *rest, **more)
    return lengths[[0, -1]], longest


def _tanh(model: Model) -> AbstractContextManager[None]:
    projector = model.model.multi_modal_projector
    activations = [layer.mlp.activation_fn for layer in model.model.vision_tower.layers]
    return forwards(
        [*activations, projector.act, projector.merge_act], lambda act: lambda x: functional.gelu(x, approximate="tanh")
    )


def _normed(model: Model) -> AbstractContextManager[object]:
    projector, config = model.model.multi_modal_projector, model.config.vision_config
    project = projector.forward

    def wrong(x: Tensor) -> Tensor:
        return project(functional.layer_norm(x, x.shape[-1:], eps=config.layer_norm_eps))

    return patch.object(projector, "forward", wrong)


def _rows(model: Model) -> AbstractContextManager[object]:
    """Patches that come block by block are put where they would be, if they came row by row."""
    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    look, merge, seen = tower.forward, projector.merge_linear_1.forward, []

    def remember(pixel_values: Tensor, grid_thw: Tensor, **rest: object) -> object:
        seen[:] = grid_thw.tolist()
        return look(pixel_values, grid_thw, **rest)

    def wrong(x: Tensor) -> Tensor:
        patches, order = x.reshape(MERGE**2 * len(x), -1), []
        for t, h, w in seen:
            places = torch.arange(t * h * w).view(t, h // MERGE, MERGE, w // MERGE, MERGE)
            order.append(places.transpose(2, 3).flatten() + sum(map(len, order)))
        return merge(patches[torch.cat(order)].reshape(x.shape))

    return everywhere(
        (patch.object(tower, "forward", remember), patch.object(projector.merge_linear_1, "forward", wrong))
    )


def _attentions(model: Model) -> list[nn.Module]:
    return [layer.self_attn for layer in model.model.vision_tower.layers]


def _causal(attention: nn.Module) -> Callable[..., tuple[Tensor, None]]:
    def forward(x: Tensor, cu_seqlens: Tensor, position_embeddings: tuple[Tensor, Tensor], **_: object) -> tuple:
        x = x.reshape(-1, x.shape[-1])
        heads = (len(x), attention.num_heads, attention.head_dim)
        q, k, v = (part(x).view(heads) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
        q, k = library.apply_rotary_pos_emb_vision(q, k, *position_embeddings)
        of_segments = []
        for first, end in zip(cu_seqlens, cu_seqlens[1:], strict=False):
            parts = (part[first:end].transpose(0, 1) for part in (q, k, v))
            of_segment = functional.scaled_dot_product_attention(*parts, is_causal=True, scale=attention.scaling)
            of_segments.append(of_segment.transpose(0, 1).flatten(1))
        return attention.out_proj(torch.cat(of_segments))[None], None

    return forward


def _of_tower(name: str, *, wrong: bool) -> Inject:
    return lambda model: patch.object(model.model.vision_tower, name, wrong)


def _raster(place: Callable, grids: Tensor, side: int, **more: object) -> Tensor:
    return place(grids, 1, **more)


def _transposed(place: Callable, grids: Tensor, *rest: object, **more: object) -> Tensor:
    return place(grids, *rest, **more)[..., [0, 2, 1]]


def _interleaved(rotate: Callable, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    angles = cos.shape[-1] // 2
    cos, sin = (table[..., None, :angles].repeat_interleave(2, dim=-1) for table in (cos, sin))

    def rotated(x: Tensor) -> Tensor:
        turned, rest = x[..., : 2 * angles], x[..., 2 * angles :]
        crossed = torch.stack((-turned[..., 1::2], turned[..., ::2]), dim=-1).flatten(-2)
        return torch.cat((turned * cos + crossed * sin, rest), dim=-1)

    return rotated(q), rotated(k)


def _pixels_bf16(model: Model) -> AbstractContextManager[None]:
    def wrong(embeddings: nn.Module) -> Callable[[Tensor], Tensor]:
        right = embeddings.forward
        return lambda x: right(x.bfloat16().float())

    return forwards([model.model.vision_tower.embeddings], wrong)


def _images_reversed(model: Model) -> AbstractContextManager[object]:
    look = model.model.get_image_features

    def wrong(*rest: object, **more: object) -> object:
        seen = look(*rest, **more)
        seen.pooler_output = tuple(reversed(seen.pooler_output))
        return seen

    return patch.object(model.model, "get_image_features", wrong)


def _function(name: str, wrong: Callable) -> Inject:
    """Replaces a function of the library, which `wrong` gets first; the older version has no such function."""
    return lambda model: patch.object(library, name, partial(wrong, getattr(library, name)))


KEPT = ("*.vision_tower.layers.[0-9]", "*.multi_modal_projector")
"""The patches after each layer of the tower, and the features."""

MISTAKES = {
    "conv_weight_order": Mistake(
        "the patch embedding's weight is read with time before colour",
        lambda model: weights([model.model.vision_tower.embeddings.proj], "weight", _time_first),
        (*KEPT, "*.vision_tower.embeddings"),
    ),
    "rope3d_axis_contiguous": Mistake(
        "each axis rotates a run of channels of its own",
        _function("apply_rotary_pos_emb_vision", _pairs_of_each_axis),
        KEPT,
    ),
    "video_t_not_reset": Mistake(
        "the time of a chunk goes on from the one before it, which cancels in its scores; the rotation is kept",
        _function("get_vision_position_ids", _time_goes_on),
        (*KEPT, "*.vision_tower.rotary_emb", "*.vision_tower.rotary_emb.1"),
    ),
    "vision_global_attention": Mistake(
        "patches attend to those of all images that go through the tower together",
        _function("get_vision_attention_seqlens", _one_segment),
        KEPT,
    ),
    "vision_causal": Mistake(
        "a patch sees those before it alone", lambda model: forwards(_attentions(model), _causal), KEPT
    ),
    "vision_frames_apart": Mistake(
        "each time of a video is a segment of its own", _of_tower("merge_temporal", wrong=False), KEPT
    ),
    "vision_positions_raster": Mistake(
        "the rotation takes patches to come row by row", _function("get_vision_position_ids", _raster), KEPT
    ),
    "vision_axes_exchanged": Mistake(
        "height and width rotate each other's channels", _function("get_vision_position_ids", _transposed), KEPT
    ),
    "rope3d_interleaved": Mistake(
        "channels 2i and 2i + 1 form a pair", _function("apply_rotary_pos_emb_vision", _interleaved), KEPT
    ),
    "gelu_quick": Mistake(
        "the tower's GELU is x·sigmoid(1.702·x)",
        lambda model: forwards(
            [layer.mlp.activation_fn for layer in model.model.vision_tower.layers],
            lambda act: lambda x: x * torch.sigmoid(1.702 * x),
        ),
        KEPT,
    ),
    "pixels_bf16": Mistake("pixels are rounded to bfloat16", _pixels_bf16, (*KEPT, "*.vision_tower.embeddings")),
    "features_misplaced": Mistake(
        "the images' features stand in the opposite order", _images_reversed, (*KEPT, "*.layers.[0-9].input_layernorm")
    ),
    "gelu_tanh": Mistake("GELU is approximated by tanh", _tanh, KEPT),
    "post_layernorm_applied": Mistake("a norm without weights follows the tower's last layer", _normed, KEPT),
    "merge_order_rowmajor": Mistake("patches are merged as if they came row by row", _rows, KEPT),
}
