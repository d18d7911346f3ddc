"""The small book that several tests look at, built once."""

from __future__ import annotations

import pytest

from tests.book.small_book import Story, tell


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Return the builds of a small book, really executed."""
    return tell(tmp_path_factory.mktemp("book"))
