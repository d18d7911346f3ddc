"""Rows of tables and charts: any objects, read by the names of their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tinytorch.perf.measuring import Unmeasured

#: Objects, or objects by name, whose name is then their attribute ``name``, and they themselves ``row``.
Rows = Iterable[Any] | Mapping[str, Any]


class _Named:
    """A row of a mapping: an object, and the name that the mapping has for it."""

    def __init__(self, name: Any, row: Any) -> None:
        self.name, self.row = name, row


def listed(rows: Rows) -> list[Any]:
    """Return the rows, each of a mapping with its name.

    Raises:
        ValueError: if there are none.
    """
    made = [_Named(name, row) for name, row in rows.items()] if isinstance(rows, Mapping) else list(rows)
    if not made:
        raise ValueError("rows must not be empty")
    return made


def points(panels: Mapping[str, Mapping[str, Mapping[Any, Any]]]) -> list[dict[str, Any]]:
    """Return rows of a chart with ``panel``, ``line``, ``at`` and ``value``, from values by panel, line and place.

    Examples:
        >>> from tinytorch.report import points
        >>> points({"": {"time": {10: 2.0, 20: 3.0}}})[1]
        {'panel': '', 'line': 'time', 'at': 20, 'value': 3.0}
    """
    return [
        {"panel": panel, "line": line, "at": at, "value": value}
        for panel, lines in panels.items()
        for line, found in lines.items()
        for at, value in found.items()
    ]


def value_at(row: Any, path: str) -> Any:
    """Return what a row has under a name; ``"speed.gain"`` is the attribute or item ``gain`` of its ``speed``.

    Where a row has None for its ``speed``, that has None for all.

    Raises:
        ValueError: if it has nothing of that name.
    """
    if isinstance(row, _Named):
        return {"name": row.name, "row": row.row}[path] if path in ("name", "row") else value_at(row.row, path)
    found = row
    for part in path.split("."):
        if found is None:
            return None
        if isinstance(found, Mapping):
            if part not in found:
                raise ValueError(f"a row has no {path!r}: it has {', '.join(map(str, found))}")
            found = found[part]
        elif isinstance(found, Unmeasured) or hasattr(found, part):
            found = getattr(found, part)
        else:
            has = ", ".join(name for name in dir(found) if not name.startswith("_"))
            raise ValueError(f"a row has no {path!r}, as a {type(found).__name__} has no {part!r}: it has {has}")
    return found
