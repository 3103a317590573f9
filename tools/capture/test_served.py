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

    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: object = None
    ) -> torch.Tensor:
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


def captured(calls: list[tuple[list[int], list[int]]], batches: list[object] | None = None) -> list[dict[str, object]]:
    """What the manifest says of calls of these tokens at these positions."""
    model = Model()
    with torch.no_grad(), ServedCapture(model) as capture:
        for (tokens, positions), batch in zip(calls, batches or [None] * len(calls), strict=True):
            model(torch.tensor(tokens), torch.tensor(positions), **({} if batch is None else {"forward_batch": batch}))
    return capture.calls


def test_packed_requests_are_told_apart_where_positions_begin_anew():
    calls = captured([([3, 4, 5, 6, 7], [0, 1, 2, 0, 1]), ([8, 9], [3, 2])])
    assert [call["cu_seqlens"] for call in calls] == [[0, 3, 5], [0, 1, 2]]
    assert [call["requests"] for call in calls] == [[0, 1], [0, 1]]


def test_one_request_in_chunks_is_no_packed_one():
    calls = captured([([3, 4], [0, 1]), ([5, 6], [2, 3]), ([7], [4])])
    assert not any("cu_seqlens" in call for call in calls)


def test_an_engine_that_says_whose_rows_they_are_is_believed():
    prompt = SimpleNamespace(extend_seq_lens=torch.tensor([3, 4]))
    decode = SimpleNamespace(extend_seq_lens=None)
    calls = captured([([1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 0, 1, 2, 3]), ([8, 9], [3, 4])], [prompt, decode])
    assert [call["cu_seqlens"] for call in calls] == [[0, 3, 7], [0, 1, 2]]
    assert [call["requests"] for call in calls] == [[0, 1], [0, 1]]


def test_a_model_whose_hooks_are_passed_by_is_seen_by_its_parts():
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids, positions)

    outer = Outer()
    with torch.no_grad(), ServedCapture(outer) as capture:
        outer.forward(torch.tensor([3, 4]), torch.arange(2))
        outer.forward(torch.tensor([5]), torch.tensor([2]))
    assert [call["tokens"] for call in capture.calls] == [[[3, 4]], [[5]]]
    assert [call["first"] for call in capture.calls] == [0, 2]
