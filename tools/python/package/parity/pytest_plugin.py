"""The plugin of pytest: the fixture `parity`, and `--parity-html DIR`.

def test_port(parity):
    parity("MODEL", tensors, tokens=[1, 2, 3])
"""

import os
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--parity-html DIR`."""
    group = parser.getgroup("parity")
    help = "write the page of every report that is asserted to DIR/TEST.html"
    group.addoption("--parity-html", metavar="DIR", default=None, help=help)


def pytest_configure(config: pytest.Config) -> None:
    """Begins to keep pages, in workers of pytest-xdist, too."""
    folder = config.getoption("parity_html")
    if folder is not None:
        # A worker is told the controller's folder, which the name is relative to.
        at = getattr(config, "workerinput", {}).get("parity_html") or os.path.join(config.invocation_params.dir, folder)
        config.stash[PAGES] = at
        from parity._asserting import keep_pages

        keep_pages(at)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends it."""
    if PAGES in config.stash:
        from parity._asserting import keep_pages

        keep_pages(None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist the folder."""
    if PAGES in node.config.stash:
        node.workerinput["parity_html"] = node.config.stash[PAGES]


@pytest.fixture
def parity() -> Any:
    """`parity.assert_parity`: fails the test with the report where a dump has a fault."""
    from parity import assert_parity

    return assert_parity


PAGES = pytest.StashKey[str]()
