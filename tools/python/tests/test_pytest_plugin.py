"""The pytest plugin: assertions, the fixture, pages, and workers of pytest-xdist."""

import parity
import pytest
from conftest import CASE
from parity._asserting import _write

TESTS = f"""
import pytest
from parity import assert_parity, run

@pytest.fixture(scope="module")
def right():
    return run({CASE!r})

def test_right(parity, right):
    assert parity({CASE!r}, right, lenses="local").passed

@pytest.mark.parametrize("scale", [1.1, 1.2])
def test_wrong(right, scale):
    name = "model.layers.1.self_attn.q_norm"
    assert_parity({CASE!r}, right | {{name: right[name] * scale}}, precision="f32")

def test_twice(parity, right):
    parity({CASE!r}, right, lenses="local")
    parity({CASE!r}, right, lenses="layer")
"""


def test_an_assertion_says_what_the_terminal_does(wrong, dump):
    assert parity.assert_parity(CASE, dump).passed
    with pytest.raises(AssertionError) as raised:
        parity.assert_parity(CASE, wrong)
    assert str(raised.value) == str(parity.verify(CASE, wrong))
    with pytest.raises(parity.ParityError):
        parity.assert_parity(CASE, "nowhere.npz")


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_tests_fail_with_the_report_and_leave_pages(pytester, workers):
    pytester.makepyfile(test_port=TESTS)
    result = pytester.runpytest_subprocess("--parity-html", "pages", *workers)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "E  *AssertionError: model      m2-gqa3-f32: 2 layers*",
            "E  *fault model.layers.1.self_attn.q_norm under the local lens",
            "E  *page: *pages*test_port.py-test_wrong?1.?].html",
        ]
    )
    assert "_asserting.py" not in result.stdout.str()
    pages = sorted(page.name for page in (pytester.path / "pages").iterdir())
    assert pages == [
        "test_port.py-test_right.html",
        "test_port.py-test_twice.2.html",
        "test_port.py-test_twice.html",
        "test_port.py-test_wrong[1.1].html",
        "test_port.py-test_wrong[1.2].html",
    ]
    assert "FAIL" in (pytester.path / "pages" / pages[-1]).read_text()


def test_names_that_are_alike_have_a_page_each(tmp_path, monkeypatch):
    report, pages = parity.verify(CASE, lenses="local"), set()
    for name in ("a b", "a/b"):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"test_port.py::test[{name}] (call)")
        pages.add(_write(str(tmp_path), report))
    assert len(pages) == 2


def test_no_pages_where_none_are_asked_for(pytester):
    pytester.makepyfile(TESTS)
    pytester.runpytest_subprocess("-k", "right").assert_outcomes(passed=1, deselected=3)
    assert not (pytester.path / "pages").exists()
