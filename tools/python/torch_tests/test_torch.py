"""What needs torch and transformers: tensors of torch's, and models watched while they run.

pip install -r tools/oracle/requirements.txt './tools/python[test]' && pytest tools/python/torch_tests
"""

import json
import re
from collections import OrderedDict
from pathlib import Path

import numpy as np
import parity
import pytest
import torch
from parity._tensors import TYPES, lend
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM

CASE = "m2-gqa3-f32"
FOLDER = Path(__file__).parents[3] / "fixtures" / "golden" / CASE
NUMBERS = torch.arange(1.0, 13.0).reshape(3, 4)


@pytest.fixture(scope="module")
def model():
    """The case's model, as people load it."""
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    return AutoModelForCausalLM.from_pretrained(FOLDER / "model", **options).eval()


@pytest.fixture(scope="module")
def ids():
    """The case's prompt [1, T]."""
    return torch.tensor([json.loads((FOLDER / "case.json").read_text())["tokens"]])


@pytest.mark.parametrize("dtype", [name for name in TYPES if hasattr(torch, name)])
def test_every_type_is_lent_without_a_copy(dtype):
    value = NUMBERS.to(getattr(torch, dtype))
    name, own, shape, data = lend("x", value)
    assert (name, own, shape, data.dtype) == ("x", TYPES[dtype], [3, 4], np.uint8)
    assert data.ctypes.data == value.data_ptr()
    assert data.tobytes() == bytes(value.reshape(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize(
    "value",
    [
        NUMBERS.t(),
        NUMBERS[:, ::2],
        NUMBERS.clone().requires_grad_(),
        NUMBERS.clone().requires_grad_() * 2,
        torch.tensor(3.0),
        torch.zeros(0, 4),
        torch.complex(NUMBERS, NUMBERS).conj().imag,
        torch.nn.Parameter(NUMBERS.clone()),
    ],
    ids=["transposed", "gaps", "leaf", "graph", "scalar", "empty", "negated", "parameter"],
)
def test_others_are_copied_or_detached(value):
    _, dtype, shape, data = lend("x", value)
    assert dtype == "f32" and shape == list(value.shape)
    assert (data.view(np.float32).reshape(shape) == value.detach().resolve_neg().numpy()).all()


@pytest.mark.parametrize(
    ("value", "problem", "help"),
    [
        (NUMBERS.to(torch.complex64), "x: values of type complex64", "convert it with .to(torch.float32)"),
        (NUMBERS.to_sparse(), "x: values in layout torch.sparse_coo", "give tensor.to_dense()"),
        (NUMBERS.to("meta"), "x: a tensor on the meta device", "run the model on a device that computes"),
        (FakeTensorMode().from_tensor(NUMBERS), "has no values that can be looked at", "outside of a compiled"),
    ],
    ids=["complex", "sparse", "meta", "traced"],
)
def test_what_has_no_values_says_what_to_do(value, problem, help):
    with pytest.raises(parity.ParityError) as raised:
        lend("x", value)
    assert problem in raised.value.problem and help in raised.value.help


def test_tokenizers_tensors_are_tokens(model, ids):
    values = parity.run(CASE)
    said = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert parity.verify(FOLDER / "model", values, tokens=said).passed


def test_a_model_that_is_watched_is_judged(model, ids, tmp_path):
    with torch.no_grad(), parity.watch(model, FOLDER / "model") as watched:
        model(ids)
    assert watched.report.passed and watched.require() is watched.report
    assert {site.lens for site in watched.report.sites} == {"local", "layer", "global"}
    assert watched.tensors["model.layers.1.self_attn.q_norm"].device.type == "cpu"
    watched.save(tmp_path / "dump.safetensors")
    of_file = parity.verify(FOLDER / "model", tmp_path / "dump.safetensors")
    assert [(site.name, site.ratio) for site in of_file.sites] == [
        (site.name, site.ratio) for site in watched.report.sites
    ]


def test_the_readmes_example_runs(model, ids, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", readme, re.S) if "parity.watch" in block]
    given = {"parity": parity, "torch": torch, "model": model, "input_ids": ids}
    exec(block.replace('"MODEL"', repr(CASE)), given)
    assert given["watched"].report.passed and (tmp_path / "dump.safetensors").exists()


def test_gradients_do_not_matter(model, ids):
    with parity.watch(model, CASE, lenses="local") as watched:
        model(ids)
    assert watched.report.passed


def test_generation_is_judged(model, ids):
    with torch.no_grad(), parity.watch(model, FOLDER / "model", lenses=["local", "global"]) as watched:
        model.generate(ids, do_sample=False, max_new_tokens=4, use_mtp=False)
    assert watched.report.passed and {site.step for site in watched.report.sites} == {0, 1, 2, 3}


def test_a_mistake_in_a_model_is_named(model, ids):
    weight = model.model.layers[1].self_attn.q_norm.weight
    with torch.no_grad():
        weight *= 1.1
        try:
            with parity.watch(model, FOLDER / "model") as watched:
                model(ids)
        finally:
            weight /= 1.1
    assert watched.report.faults[0].name == "model.layers.1.self_attn.q_norm"
    with pytest.raises(AssertionError, match="fault model.layers.1.self_attn.q_norm"):
        watched.require()
    (mistake,) = watched.diagnose().mistakes
    assert mistake.name == "weight_scaled" and mistake.way.startswith("q_norm in layer 1 is 1.1000")


def test_bfloat16_models_are_judged_as_such(ids):
    half = AutoModelForCausalLM.from_pretrained(FOLDER / "model", dtype=torch.bfloat16).eval()
    with torch.no_grad(), parity.watch(half, FOLDER / "model") as watched:
        half(ids)
    assert watched.report.passed and "bf16" in str(watched.report)
    assert any(value.dtype == torch.bfloat16 for value in watched.tensors.values())


def test_a_block_that_raises_is_not_judged(model, ids):
    watched = parity.watch(model, CASE)
    with pytest.raises(IndexError), watched:
        model(torch.tensor([[10**6]]))
    with pytest.raises(parity.ParityError, match="nothing is judged yet"):
        print(watched.report)


def test_options_that_are_none_are_refused_before_the_block(model):
    for options in ({"lens": "local"}, {"manifest": {}}, {"dump": {}}):
        with pytest.raises(TypeError):
            parity.watch(model, CASE, **options)


def test_models_that_are_none_are_refused(model):
    with pytest.raises(parity.ParityError, match="expected a torch.nn.Module, found builtins.str"):
        parity.watch(CASE, CASE)
    with pytest.raises(parity.ParityError, match="found transformers.models.minimax_m2"):
        parity.verify(model, {})
    other = torch.nn.Sequential(OrderedDict(encoder=torch.nn.Linear(4, 4), activation=torch.nn.ReLU()))
    with pytest.raises(parity.ParityError, match="names are known"), parity.watch(other, CASE):
        other(torch.zeros(1, 3, 4))


def test_a_model_without_parts_is_refused_as_such():
    small = torch.nn.Linear(2, 2)
    said = r"of torch.nn.modules.linear.Linear only logits \[1, 2, 2\] was captured, expected what modules of a"
    with pytest.raises(parity.ParityError, match=said), torch.no_grad(), parity.watch(small, CASE):
        small(torch.zeros(1, 2, 2))


def test_nothing_that_runs_is_refused(model):
    with pytest.raises(parity.ParityError, match="nothing was captured"), parity.watch(model, CASE):
        pass
