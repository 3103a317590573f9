"""Tests of `served.py`; they need torch, numpy, safetensors and pytest."""

from types import SimpleNamespace

import torch
from served import ServedCapture


class LogitsProcessor(torch.nn.Module):
    """Of the last row alone, in an object of the engine's."""

    def forward(self, hidden: torch.Tensor) -> SimpleNamespace:
        """The row."""
        return SimpleNamespace(next_token_logits=hidden[-1:])


class Model(torch.nn.Module):
    """A model as serving engines have them."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens, self.logits_processor = torch.nn.Embedding(64, 4), LogitsProcessor()

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Hidden states."""
        return self.embed_tokens(input_ids)


def test_rows_have_no_batch_axis_and_logits_come_after_the_call():
    model = Model()
    with torch.no_grad(), ServedCapture(model) as capture:
        for first, tokens in ((0, [3, 4, 5]), (3, [6])):
            model.logits_processor(model(torch.tensor(tokens), torch.arange(first, first + len(tokens))))
    names = ["embed_tokens", "logits_processor"]
    assert list(capture.tensors) == [f"step.{step}.{name}" for step in (0, 1) for name in names]
    assert capture.tensors["step.0.logits_processor"].shape == (1, 4)
    assert [call["tokens"] for call in capture.calls] == [[[3, 4, 5]], [[6]]]
    assert [call["positions"] for call in capture.calls] == [[[0, 1, 2]], [[3]]]
    assert [call["first"] for call in capture.calls] == [0, 3]
