"""`parity.diagnose`, `parity.diff` and `parity.run`."""

import json

import numpy as np
import parity
import pytest
from conftest import CASE, GOLDEN

MISTAKES = GOLDEN.parent / "golden-mistakes"
FAULT = "model.layers.1.self_attn.q_norm"


def test_the_mistake_is_named():
    found = parity.diagnose(CASE, MISTAKES / CASE / "eps_outside.safetensors")
    (mistake,) = found.mistakes
    assert (mistake.name, mistake.fault.verdict, mistake.request) == ("eps_outside", "fault", 0)
    assert not found.passed and found.left == 0
    assert f"mistake      eps_outside ({mistake.way})" in str(found) and "nothing is left unexplained" in str(found)
    assert json.loads(found.json())["diagnosis"]["explained"][0]["name"] == "eps_outside"
    assert "eps_outside" in found.html() and found._repr_html_().startswith("<iframe ")
    assert repr(found) == "<parity.Diagnosis eps_outside; 0 left>"


def test_tensors_in_memory_are_diagnosed(wrong):
    found = parity.diagnose(CASE, wrong, precision="f32")
    assert (found.mistakes[0].name, found.mistakes[0].layers) == ("weight_scaled", [1])
    assert found.mistakes[0].way.startswith("q_norm in layer 1 is 1.10000")


def test_what_is_right_needs_no_explanation(dump):
    found = parity.diagnose(CASE, dump)
    assert found.passed and found.mistakes == [] and found.left == 0


def test_equal_dumps_are_equal(dump, tensors):
    difference = parity.diff(dump, tensors)
    assert difference.equal and difference.first is None and len(difference.pairs) == len(tensors)
    assert difference.only_a == difference.only_b == []
    assert str(difference).splitlines()[:2] == [f"a {dump}", "b tensors in memory"]


def test_the_first_difference_is_named(tensors, wrong):
    difference = parity.diff(wrong, tensors)
    first = difference.first
    assert not difference.equal and first.name == FAULT
    a, b = (values[FAULT].astype(float) for values in (wrong, tensors))
    assert first.count == a.size and first.unequal == (a != b).sum()
    assert first.max_absolute == np.abs(a - b).max()
    assert first.relative == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(b), rel=1e-6)
    assert json.loads(difference.json())["pairs"][0]["metrics"]["unequal"] == 0
    assert repr(difference) == f"<parity.Difference {len(tensors)} pairs, the first that differs: {FAULT}>"


def test_shapes_and_names_may_differ(tensors):
    name, *_ = tensors
    value = tensors[name]
    difference = parity.diff({name: value[..., :2], "mine": value}, {name: value, "yours": value})
    (pair,) = difference.pairs
    assert pair.unequal is None and pair.shapes[0] != pair.shapes[1] and "shapes differ" in repr(pair)
    assert (difference.only_a, difference.only_b) == (["mine"], ["yours"])
    with pytest.raises(parity.ParityError, match="nothing was compared") as raised:
        parity.diff({"mine": tensors[name]}, {"yours": tensors[name]})
    assert "give --model" in raised.value.help


def test_a_model_compares_sites(tensors):
    part = parity.diff(tensors, tensors, model=CASE, sites="*.self_attn.*")
    assert part.equal and all(".self_attn." in pair.name for pair in part.pairs)
    engine = {name.replace(".mlp.", ".block_sparse_moe."): value for name, value in tensors.items()}
    by_name, by_site = parity.diff(engine, tensors), parity.diff(engine, tensors, model=CASE)
    assert by_site.equal and len(by_name.pairs) < len(by_site.pairs) and by_site.only_a == []


def test_the_reference_computes_what_transformers_does(tensors):
    computed = parity.run(CASE)
    common = computed.keys() & tensors.keys()
    assert len(common) > 20
    for name in common:
        own, value = computed[name], tensors[name].reshape(computed[name].shape)
        if ".gate.1" in name or ".gate.2" in name:  # The order of what was chosen means nothing.
            own, value = np.sort(own), np.sort(value)
        assert own.dtype == (np.int64 if value.dtype.kind == "i" else np.float64), name
        assert np.linalg.norm(own - value) <= 1e-5 * np.linalg.norm(own), name
    computed[FAULT][0] = 0.0  # It is the caller's own.


def test_the_reference_decodes_what_transformers_does(tensors):
    case = json.loads((GOLDEN / CASE / "case.json").read_text())
    computed = parity.run(CASE, case["tokens"], decode=4, sites="logits", steps=True)
    assert computed["tokens"].tolist() == case["decode"]["tokens"][:4]
    assert set(computed) == {"tokens", "logits", "step.1.logits", "step.2.logits", "step.3.logits"}
    assert computed["logits"].argmax(1)[-1] == computed["tokens"][0]


def test_roundings_can_be_asked_for(tensors):
    rounded = parity.run(CASE, precision="f32", sites="logits")["logits"]
    assert (rounded == rounded.astype(np.float32)).all()
    assert (parity.run(CASE, sites="logits")["logits"] != rounded).any()


def test_a_reference_runs_one_prompt_after_another():
    reference = parity.reference(CASE, sites="logits")
    assert repr(reference) == f"<parity.Reference {CASE}>"
    for tokens in (None, [3, 1, 4]):
        made, again = reference.run(tokens), parity.run(CASE, tokens, sites="logits")
        assert made.keys() == again.keys() and (made["logits"] == again["logits"]).all()
    rounded = reference.run([3, 1, 4], precision="f32", sites="model.norm")
    assert list(rounded) == ["model.norm"] and (rounded["model.norm"] == rounded["model.norm"].astype("f4")).all()
    with pytest.raises(TypeError):
        reference.run(lens="local")
    with pytest.raises(parity.ParityError, match="expected a folder or a built-in case's name, found builtins.int"):
        parity.reference(3)


def test_runs_that_cannot_be_are_refused():
    with pytest.raises(parity.ParityError, match="expected below vocab_size"):
        parity.run(CASE, [10**6])
    with pytest.raises(parity.ParityError, match="no site was selected"):
        parity.run(CASE, sites="nothing")
    with pytest.raises(parity.ParityError, match="decode: -1, expected 0 or more"):
        parity.run(CASE, decode=-1)


def test_no_dump_is_not_compared(tensors):
    with pytest.raises(parity.ParityError, match="no dump is named"):
        parity.diff(None, tensors)
