"""The small book that several tests look at, built once."""

from collections.abc import Iterator

import pytest

from tests.book.small_book import Story, tell
from tests.book.sphinx_process import SphinxProcess


@pytest.fixture(scope="session")
def sphinx() -> Iterator[SphinxProcess]:
    """Return Sphinx, loaded once for all books that tests build."""
    with SphinxProcess() as process:
        yield process


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Story:
    """Return the builds of a small book, really executed."""
    return tell(tmp_path_factory.mktemp("book"), sphinx)
