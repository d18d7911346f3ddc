"""The browser that tests of scripts look with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import launched
from playwright.sync_api import Browser

from tests.own_warnings import pytest_configure as pytest_configure


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser; one a module, as a second playwright cannot run beside it."""
    with launched() as found:
        yield found
