"""Tests of `capture.py` on a small MiniMax-M2 with random weights; they need what it needs, transformers and pytest.

    pip install pytest -r tools/oracle/requirements.txt && pytest tools/capture
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from capture import Capture, Recording
from safetensors import safe_open
from transformers import GenerationConfig, MiniMaxM2Config, MiniMaxM2ForCausalLM

LAYERS = 2
TOKENS = [[11, 12, 13, 14, 15, 16]]
PADDED = {
    "input_ids": torch.tensor([[0, 0, 21, 22, 23], [31, 32, 33, 34, 35]]),
    "attention_mask": torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
}
GREEDY = {"do_sample": False, "max_new_tokens": 3, "use_mtp": False}


@pytest.fixture(scope="module")
def model() -> MiniMaxM2ForCausalLM:
    """Two layers of four experts."""
    torch.manual_seed(0)
    config = MiniMaxM2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=16,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        num_local_experts=4,
        num_experts_per_tok=2,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return MiniMaxM2ForCausalLM(config).eval()


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., tuple[dict[str, torch.Tensor], dict[str, Any]]]:
    """Saves a recording and reads the file back: its tensors and its manifest."""

    def save(recording: Recording, **fields: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        recording.save(tmp_path / "dump.safetensors", **fields)
        with safe_open(tmp_path / "dump.safetensors", "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["parity"])

    return save


@torch.no_grad()
def captured(model: torch.nn.Module, run: Callable[[], Any], **options: Any) -> Capture:
    """What is captured while `run` runs."""
    with Capture(model, **options) as capture:
        run()
    return capture


def test_one_call_records_what_went_in(model, saved):
    tensors, manifest = saved(captured(model, lambda: model(torch.tensor(TOKENS))))
    assert torch.equal(tensors["logits"], model(torch.tensor(TOKENS)).logits)
    assert tensors["model.layers.1.mlp.gate.2"].shape == (6, 2)
    assert manifest["tokens"] == TOKENS[0]
    assert manifest["calls"] == [
        {"first": 0, "tokens": TOKENS, "positions": [[0, 1, 2, 3, 4, 5]], "inputs": {"input_ids": "int64 [1, 6]"}}
    ]
    assert manifest["producer"]["dtype"] == "float32"
    assert "unseen" not in manifest


def test_padding_has_the_positions_that_the_model_made(model, saved):
    _, manifest = saved(captured(model, lambda: model(**PADDED)))
    (call,) = manifest["calls"]
    assert call["mask"] == PADDED["attention_mask"].tolist()
    # A plain call counts padding, too.
    assert call["positions"] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert "tokens" not in manifest


def test_requests_of_a_batch_that_is_scheduled_lie_one_after_another(model, saved):
    prompts = [[11, 12, 13], [21, 22, 23, 24, 25]]
    options = GenerationConfig(do_sample=False, max_new_tokens=3, eos_token_id=-1, pad_token_id=0)
    scheduled = copy.deepcopy(model)
    run = lambda: scheduled.generate_batch(inputs=prompts, generation_config=options)
    _, manifest = saved(captured(scheduled, run))
    calls = manifest["calls"]
    # Which of them comes first is the scheduler's affair.
    first, second = prompts if calls[0]["cu_seqlens"][1] == len(prompts[0]) else reversed(prompts)
    assert calls[0]["cu_seqlens"] == [0, len(first), 8] and calls[0]["tokens"] == [first + second]
    assert [call["cu_seqlens"] for call in calls[1:]] == [[0, 1, 2]] * (len(calls) - 1)
    assert not any("mask" in call for call in calls)
    assert "tokens" not in manifest


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate_numbers_its_calls(model, saved, cache):
    generated = []
    options = GREEDY if cache == "dynamic" else GREEDY | {"cache_implementation": "static"}
    tensors, manifest = saved(captured(model, lambda: generated.append(model.generate(**PADDED, **options))))
    calls = manifest["calls"]
    assert [call["first"] for call in calls] == [0, 5, 6]
    assert calls[0]["positions"] == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert [call["positions"] for call in calls[1:]] == [[[3], [5]], [[4], [6]]]
    assert calls[0]["mask"] == PADDED["attention_mask"].tolist()
    assert not any("mask" in call for call in calls[1:])
    assert [call["logits"] for call in calls] == [1, 1, 1]
    assert [call["cache_length"] for call in calls] == [-1 if cache == "dynamic" else 7] * 3
    fed = [sum(pieces, []) for pieces in zip(*(call["tokens"] for call in calls), strict=True)]
    assert fed == generated[0][:, :-1].tolist()
    assert tensors["step.0.logits"].shape == (2, 1, 64)
    assert "step.2.model.layers.1.self_attn" in tensors


def test_checkpoints_are_captured_once(model, saved):
    """A backward pass computes again what was not kept; all of it was seen before."""
    trained = copy.deepcopy(model).train()  # In training no cache is kept, which other tests need.
    trained.gradient_checkpointing_enable()
    with torch.enable_grad(), Capture(trained) as capture:
        trained(torch.tensor(TOKENS), labels=torch.tensor(TOKENS), use_cache=False).loss.backward()
    tensors, manifest = saved(capture)
    assert len(manifest["calls"]) == 1 and manifest["tokens"] == TOKENS[0]
    assert not any("#" in name or name.startswith("step.") for name in tensors)


def test_beams_are_refused(model):
    with pytest.raises(RuntimeError, match="expected num_beams=1"):
        captured(model, lambda: model.generate(**PADDED, **GREEDY, num_beams=2))
    model.generate(**PADDED, **GREEDY, num_beams=2)  # Nothing stays behind.


def test_chunks_follow_one_another(model, saved):
    def run() -> None:
        cache = model(torch.tensor([TOKENS[0][:4]]), use_cache=True).past_key_values
        model(torch.tensor([TOKENS[0][4:]]), past_key_values=cache)

    tensors, manifest = saved(captured(model, run))
    assert manifest["tokens"] == TOKENS[0]
    assert [(call["first"], call["positions"]) for call in manifest["calls"]] == [(0, [[0, 1, 2, 3]]), (4, [[4, 5]])]
    assert tensors["step.1.model.norm"].shape == (1, 2, 32)


def test_later_calls_of_a_padded_batch_follow_what_is_cached(model, saved):
    _, manifest = saved(captured(model, lambda: model.generate(**PADDED, **GREEDY)))
    first, *later = manifest["calls"]
    assert first["first"] == 0 and first["mask"] == PADDED["attention_mask"].tolist()
    assert [call["first"] for call in later] == [5, 6]
    # What stands behind the padding is no padding.
    assert not any("mask" in call for call in later)


def test_a_capture_may_begin_in_the_middle(model, saved):
    cache = model(torch.tensor(TOKENS), use_cache=True).past_key_values
    capture = captured(model, lambda: model(torch.tensor([[17]]), past_key_values=cache), first_step=1)
    tensors, manifest = saved(capture)
    assert all(name.startswith("step.1.") for name in tensors)
    assert "tokens" not in manifest
    assert saved(capture, tokens=torch.tensor([TOKENS[0] + [17]]))[1]["tokens"] == TOKENS[0] + [17]
    with pytest.raises(ValueError, match="expected to end with"):
        saved(capture, tokens=TOKENS[0])


def test_embeddings_have_the_tokens_that_are_said(model, saved):
    embedded = model.model.embed_tokens(PADDED["input_ids"])
    capture = captured(model, lambda: model(inputs_embeds=embedded, attention_mask=PADDED["attention_mask"]))
    _, manifest = saved(capture, tokens=PADDED["input_ids"])
    assert manifest["calls"][0]["tokens"] == PADDED["input_ids"].tolist()


class Twice(torch.nn.Module):
    """One activation in two layers, each of which calls it two times."""

    def __init__(self) -> None:
        super().__init__()
        shared = torch.nn.SiLU()
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(shared, shared) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both layers, one after the other."""
        return self.layers[1](self.layers[0](x))


def test_shared_modules_are_named_by_their_caller():
    names = list(captured(model := Twice(), lambda: model(torch.ones(3))).tensors)
    assert names == [
        *("layers.0.0", "layers.0.0#1", "layers.0"),
        *("layers.1.0", "layers.1.0#1", "layers.1", "logits"),
    ]


@pytest.mark.parametrize("own", [None, lambda cache, rows: cache], ids=["the class's", "its own"])
def test_captures_nest_and_leave_the_model_as_it_was(own):
    model = Twice()
    if own is not None:
        model._reorder_cache = own
    with Capture(model) as outer:
        inner = captured(model, lambda: model(torch.ones(3)))
        with pytest.raises(RuntimeError, match="expected num_beams=1"):
            model._reorder_cache(None, None)
    assert list(outer.tensors) == list(inner.tensors)
    assert vars(model).get("_reorder_cache") is own


def test_types_that_differ_are_told(model, saved):
    half = MiniMaxM2ForCausalLM(model.config).to(torch.bfloat16)
    for layer in half.model.layers:
        layer.mlp.gate.weight.data = layer.mlp.gate.weight.data.float()
    _, manifest = saved(captured(half, lambda: half(torch.tensor(TOKENS))))
    assert manifest["producer"]["dtype"] == "bfloat16"
    assert manifest["producer"]["dtypes"] == {"model.layers.*.mlp.gate.weight": "float32"}


def test_a_compiled_model_says_what_was_not_seen(model, saved):
    compiled = torch.compile(model, backend="eager")
    with pytest.warns(UserWarning, match="ran no hook"):
        capture = captured(compiled, lambda: compiled(torch.tensor(TOKENS)))
    tensors, manifest = saved(capture)
    assert list(tensors) == ["logits"]
    assert manifest["unseen"] == ["model", "lm_head"]
    assert manifest["producer"]["compiled"]
    with torch.compiler.set_stance("force_eager"):
        assert "model.layers.1.self_attn" in captured(compiled, lambda: compiled(torch.tensor(TOKENS))).tensors


def test_a_call_that_fails_does_not_confuse_the_next(model):
    with Capture(model) as capture, torch.no_grad():
        with pytest.raises(IndexError):
            model(torch.tensor([[10_000]]))
        model(torch.tensor(TOKENS))
    assert capture.tensors["step.1.logits"].shape == (1, 6, 64)


def test_nothing_captured_is_an_error(model, tmp_path):
    with pytest.raises(RuntimeError, match="nothing was captured"):
        Capture(model).save(tmp_path / "dump.safetensors")


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_arrays_of_numpy_are_written_too(tmp_path, ending):
    recording = Recording()
    recording.begin_call(tokens=TOKENS)
    recording.keep("Qcur-0", np.arange(6.0))
    recording.keep("Qcur-0", np.zeros(6))
    path = tmp_path / f"dump.{ending}"
    recording.save(path, producer={"library": "llama.cpp"})
    if ending == "npz":
        with np.load(path) as file:
            assert json.loads(file["parity.json"])["calls"] == [{"tokens": TOKENS}]
            assert file["Qcur-0#1"].tolist() == [0.0] * 6
    else:
        with safe_open(path, "np") as file:
            assert set(file.keys()) == {"Qcur-0", "Qcur-0#1"}
            assert json.loads(file.metadata()["parity"])["producer"] == {"library": "llama.cpp"}


class Seeing(torch.nn.Module):
    """A tower and what uses it, as a multimodal model that encodes images before its own call."""

    def __init__(self) -> None:
        super().__init__()
        self.vision_tower, self.lm_head = torch.nn.Identity(), torch.nn.Identity()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """The tokens."""
        return self.lm_head(input_ids)


def test_a_tower_that_runs_first_belongs_to_the_same_call():
    def run() -> None:
        for _ in range(2):
            model.vision_tower(torch.ones(4))
            model(torch.tensor(TOKENS))

    capture = captured(model := Seeing(), run)
    each = ["vision_tower", "lm_head", "logits"]
    assert list(capture.tensors) == [f"step.{step}.{name}" for step in (0, 1) for name in each]
    assert [call["tokens"] for call in capture.calls] == [TOKENS, TOKENS]
