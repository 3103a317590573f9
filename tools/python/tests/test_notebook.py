"""A notebook that is executed with nobody at it shows the page."""

import nbformat
from conftest import CASE
from nbclient import NotebookClient

CELLS = [
    f"import parity\nvalues = parity.run({CASE!r})\nvalues['model.layers.1.self_attn.q_norm'] *= 1.1",
    f"parity.verify({CASE!r}, values, precision='f32')",
    f"parity.diagnose({CASE!r}, values, precision='f32')",
]


def test_a_notebook_shows_the_page():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    report, diagnosis = (cell["outputs"][0]["data"] for cell in notebook.cells[1:])
    assert report["text/plain"].startswith("<parity.Report ") and " FAIL " in report["text/plain"]
    for page in (report["text/html"], diagnosis["text/html"]):
        assert page.startswith("<iframe sandbox=") and "<!DOCTYPE html>" in page
    assert "model.layers.1.self_attn.q_norm" in report["text/html"]
