"""What fresh processes are asked to time in tests: importable by name."""

from collections.abc import Callable, Mapping
from typing import Any

Functions = Mapping[str, Callable[[], Any]]


def twice_the_work() -> Functions:
    return {"long": lambda: sum(range(8_000)), "short": lambda: sum(range(4_000))}


def broken() -> Functions:
    raise ZeroDivisionError("nothing to compare")
