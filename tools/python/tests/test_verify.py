"""`parity.verify`: the verdict, the report, and what is refused."""

import json

import ml_dtypes
import numpy as np
import parity
import pytest
from conftest import BF16, CASE, GOLDEN, read

FAULT = "model.layers.1.self_attn.q_norm"


def sites(report):
    """What is said of each site, without words."""
    (one,) = json.loads(report.json())["reports"]
    return one["sites"]


def test_a_right_dump_passes(dump):
    report = parity.verify(CASE, dump)
    assert report.passed and report.verdict == "PASS" and report.faults == []
    assert {site.verdict for site in report.sites} <= {"exact", "within", "tie"}
    assert {site.lens for site in report.sites} == {"local", "layer", "global"}


def test_tensors_in_memory_are_judged_as_those_of_a_file(dump, tensors):
    of_file, of_memory = (parity.verify(CASE, values, precision="eager_f32") for values in (dump, tensors))
    assert sites(of_file) == sites(of_memory)
    assert "candidate  tensors in memory" in str(of_memory)


def test_a_fault_is_named_where_it_arises(wrong):
    report = parity.verify(CASE, wrong)
    assert not report.passed and report.verdict == "FAIL"
    first = report.faults[0]
    assert (first.name, first.operator, first.lens, first.verdict) == (FAULT, "self_attn.q_norm", "local", "fault")
    assert first.ratio > 1 and first.faults == first.count == wrong[FAULT].size
    value = wrong[FAULT].reshape(40, -1)[tuple(first.index)]
    assert first.candidate == value and first.reference == pytest.approx(value / 1.1, rel=1e-4)
    assert repr(first).startswith(f"<parity.Site {FAULT} (local): fault, ratio ")


def test_a_report_is_text_and_json_and_a_page(wrong):
    report = parity.verify(CASE, wrong)
    text = str(report)
    assert "\x1b" not in text and f"fault {FAULT} under the local lens" in text
    assert f"reproduce: parity.verify('{CASE}', tensors, sites='{FAULT}')" in text
    assert text.splitlines()[-1].startswith("FAIL  ")
    assert repr(report).startswith(f"<parity.Report {CASE} FAIL  ") and "\n" not in repr(report)
    assert json.loads(report.json())["reports"][0]["header"]["model"] == CASE
    assert report.html().startswith("<!DOCTYPE html>") and FAULT in report.html()
    framed = report._repr_html_()
    assert framed.startswith("<iframe sandbox=") and "<!DOCTYPE" in framed and framed.count('"') == 8


def test_what_is_told_to_run_again_runs(wrong):
    report = parity.verify(CASE, wrong)
    (line,) = [line for line in str(report).splitlines() if "reproduce" in line and FAULT in line]
    again = eval(line.partition("reproduce: ")[2], {"parity": parity, "tensors": wrong})
    assert {site.name for site in again.sites} == {FAULT}
    assert [site.ratio for site in again.faults] == [site.ratio for site in report.faults if site.name == FAULT]


def test_a_part_is_looked_at(dump):
    report = parity.verify(CASE, dump, lenses="local", layers=1, sites=["*.self_attn.*"])
    assert {site.lens for site in report.sites} == {"local"}
    assert all(site.name.startswith("model.layers.1.self_attn.") for site in report.sites)
    assert [site.name for site in parity.verify(CASE, dump, layers=range(1, 2)).sites] == [
        site.name for site in parity.verify(CASE, dump, layers="1..2").sites
    ]


def test_what_is_required_and_denied_fails(tensors):
    few = {name: value for name, value in tensors.items() if ".mlp." not in name}
    assert parity.verify(CASE, few, require="*.q_norm").passed
    report = parity.verify(CASE, few, deny=["missing"])
    assert not report.passed and not report.faults and "denied: " in str(report)


def test_a_case_has_values_of_its_own():
    assert parity.verify(CASE).passed


def test_bfloat16_is_taken_as_it_is():
    tensors = read(GOLDEN / BF16 / "expected.safetensors")
    assert any(value.dtype == ml_dtypes.bfloat16 for value in tensors.values())
    report = parity.verify(BF16, tensors)
    assert report.passed and "bf16" in str(report)


IDS = json.loads((GOLDEN / CASE / "case.json").read_text())["tokens"]
MODEL = GOLDEN / CASE / "model"


@pytest.mark.parametrize(
    "form",
    [
        lambda ids: ids,
        lambda ids: np.array(ids),
        lambda ids: np.array([ids], np.int32),
        lambda ids: {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), bool)},
        lambda ids: {"input_ids": [ids], "token_type_ids": None},
        lambda ids: ",".join(map(str, ids)),
    ],
    ids=["list", "array", "batch", "tokenizer", "object", "text"],
)
def test_tokens_have_many_forms(tensors, form):
    assert parity.verify(MODEL, tensors, tokens=form(IDS), lenses="global").passed
    others = IDS[1:] + IDS[:1]
    assert not parity.verify(MODEL, tensors, tokens=form(others), lenses="global").passed


def test_a_path_is_a_file_of_tokens(tensors):
    assert parity.verify(MODEL, tensors, tokens=GOLDEN / CASE / "case.json", lenses="global").passed


def test_a_manifest_says_what_the_file_says(dump, tensors):
    data = dump.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    manifest = json.loads(header["__metadata__"]["parity"])
    of_file, of_memory = parity.verify(MODEL, dump), parity.verify(MODEL, tensors, manifest=manifest)
    assert sites(of_file) == sites(of_memory)
    assert f"tensors in memory, by transformers {manifest['producer']['version']}" in str(of_memory)
    command = json.loads(of_memory.json())["reports"][0]["header"]["command"]
    assert command.endswith(", tensors, manifest=manifest)"), "it is made again with what it was made with"


@pytest.mark.parametrize(
    ("arguments", "problem", "help"),
    [
        ({"model": object()}, "expected a folder or a built-in case's name, found builtins.object", "parity.watch(model"),
        ({"model": "nobody"}, "nobody is neither a folder nor a built-in case", "name a folder with config.json"),
        ({"dump": "nowhere.npz"}, "nowhere.npz: is not there", "check the path"),
        ({"dump": {}}, "tensors in memory: holds no tensor", "a dump is a"),
        ({"dump": {"a": np.zeros(2)}}, "tensors in memory: 0 of 1 names are known", "name tensors as transformers"),
        ({"dump": [1]}, "dump: expected a path, or a mapping of names to tensors, found builtins.list", "give {name:"),
        ({"lenses": "lokal"}, "lenses: there is no lokal", "expected one of local, layer, global"),
        ({"deny": "fault"}, "deny: there is no fault", "expected one of suspicious, inconclusive, missing"),
        ({"precision": "bf17"}, "bf17", ""),
        ({"tokens": [1.5]}, "tokens: 1.5, expected whole numbers", "give a list of token ids"),
        ({"tokens": {"ids_of_input": [1]}}, "tokens: an object of ids_of_input", "give a list of token ids"),
        ({"tokens": [[1, 2], [-1]]}, "number 0 is -1, expected a token id", "give a list of token ids"),
        ({"layers": 1.0}, "layers: 1.0", "expected a number"),
        ({"sites": "nothing.*"}, "nothing was compared: --sites", "widen --layers or --sites"),
        ({"manifest": {"schema": 1}}, "manifest: the dump is a file", "leave it out"),
    ],
)
def test_what_cannot_be_answered_says_what_to_do(dump, arguments, problem, help):
    with pytest.raises(parity.ParityError) as raised:
        parity.verify(**{"model": CASE, "dump": dump} | arguments)
    error = raised.value
    assert problem in error.problem and help in (error.help or "")
    assert str(error) == (f"{error.problem}\nhelp: {error.help}" if error.help else error.problem)
