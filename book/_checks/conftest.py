"""The browser that tests of scripts look with, and the Sphinx that builds small books."""

from collections.abc import Iterator

import pytest
from chromium import PATIENCE, launched
from playwright.sync_api import Browser, expect

from tests.book.conftest import sphinx as sphinx


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return the browser of all tests, each of which opens its pages in fresh profiles."""
    expect.set_options(timeout=PATIENCE)
    with launched() as found:
        yield found
