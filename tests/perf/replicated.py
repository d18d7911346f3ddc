"""What fresh processes are asked to compare in tests: importable by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[[], Any]


def twice_the_work() -> tuple[Function, Function]:
    return lambda: sum(range(8_000)), lambda: sum(range(4_000))


def broken() -> tuple[Function, Function]:
    raise ZeroDivisionError("nothing to compare")
