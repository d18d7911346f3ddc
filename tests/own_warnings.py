"""Turns warnings of old ways into errors where our own modules go them, and nowhere else.

A newer Python warns of what libraries do; whoever runs the tests with it can mend only what is ours.
"""

from __future__ import annotations

import re

import pytest

#: What says that something will go or change, to those who wrote the code.
OLD_WAYS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


def pytest_configure(config: pytest.Config) -> None:
    """Add filters for all modules and packages of the folders that tests import from."""
    names = set()
    for folder in config.getini("pythonpath"):
        names |= {path.stem for path in folder.glob("*.py")}
        names |= {path.parent.name for path in folder.glob("[!._]*/*.py")}
    own = "|".join(re.escape(name) for name in sorted(names))
    for category in OLD_WAYS:
        config.addinivalue_line("filterwarnings", f"error::{category.__name__}:({own})(\\.|$)")
