"""What loading and running a model needs, whichever family it is of."""

from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import PreTrainedModel
from transformers.utils import logging

PRECISIONS = {torch.float32: "eager_f32", torch.bfloat16: "eager_bf16"}
"""What a dump says of its rounding points: those of the library's eager path in this type."""

KEPT_INPUTS = ("*.o_proj", "*.out_proj", "*.post_attention_layernorm", "*.layer_norm2", "*.language_model.layers.0")
"""Modules whose input no module returns: the attention's context, the residual stream before a layer's network, and a
prompt's embeddings with what it shows among them."""

PLAIN = {"attn_implementation": "eager", "experts_implementation": "eager"}
"""Plain operators, for `from_pretrained`."""


def prepare_library() -> None:
    """One thread and no algorithm whose order of summation may vary: the same machine then gives the same bytes.

    The library's progress bars and warnings go: it warns that its default token ids are outside of a tiny vocabulary.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def restore(tensors: Iterable[torch.Tensor], exact: Iterable[torch.Tensor]) -> None:
    """Gives `tensors` the values and the type of `exact`.

    Loading in bfloat16 rounds the router's weight and correction bias as well, although they are stored in float32
    and every serving engine keeps them so; with their stored values back, the router computes in float32.
    """
    for mine, stored in zip(tensors, exact, strict=True):
        mine.data = stored.data


def require_rotated(folder: Path, model: PreTrainedModel) -> None:
    """Refuses a model that rotates other channels than its config says: the library reads another field."""
    rotated, wanted = 2 * len(model.model.rotary_emb.inv_freq), model.config.rotary_dim
    if rotated != wanted:
        raise RuntimeError(
            f"{folder}: the library rotates {rotated} channels of each head, expected rotary_dim = {wanted}"
        )


class GreedyDecoder:
    """Takes the best token again and again, with a cache of keys and values."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model, self.cache = model, None
        self.tokens: list[int] = []
        self.margins: list[float] = []

    def feed(self, tokens: list[int], **shown: torch.Tensor) -> None:
        """Runs the model on the `tokens` that follow what it has seen, and takes the next token."""
        output = self.model(torch.tensor([tokens]), past_key_values=self.cache, use_cache=True, **shown)
        self.cache = output.past_key_values
        best = output.logits[0, -1].float().topk(2)
        self.tokens.append(int(best.indices[0]))
        self.margins.append(float(best.values[0] - best.values[1]))
