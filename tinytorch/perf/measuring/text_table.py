"""Rows as tables of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the attribute it shows, its header with the unit, and how a value is written."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    numeric: bool = True


def number(digits: int, factor: float = 1.0) -> Callable[[Any], str]:
    """Return a writer of ``value * factor`` with ``digits`` decimals; None is a dash."""

    def show(value: Any) -> str:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "–"
        return f"{value * factor:,.{digits}f}"

    return show


milliseconds = number(3, 1e3)
percent = number(1, 100.0)
mebibytes = number(2, 1 / 2**20)
whole = number(0)


def _cells(rows: Sequence[Any], columns: Sequence[Column]) -> list[list[str]]:
    return [[column.show(getattr(row, column.key)) for column in columns] for row in rows]


def aligned(lines: Sequence[Sequence[str]], numeric: Sequence[bool], heads: int = 1) -> str:
    """Return lines of cells, the first ``heads`` a header, as text in a fixed-width font, numbers right-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def laid(line: Sequence[str]) -> str:
        cells = zip(line, widths, numeric, strict=True)
        return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells).rstrip()

    rule = "  ".join("─" * width for width in widths)
    return "\n".join([*map(laid, lines[:heads]), rule, *map(laid, lines[heads:])])


def text_table(rows: Sequence[Any], columns: Sequence[Column]) -> str:
    """Return rows as lines of fixed-width text under a header, units on a line of their own, numbers right-aligned."""
    titles = [column.title.removesuffix(")").partition(" (") for column in columns]
    heads = [[name for name, _, _ in titles], [f"({unit})" if unit else "" for _, _, unit in titles]]
    heads = heads if any(heads[1]) else heads[:1]
    return aligned([*heads, *_cells(rows, columns)], [column.numeric for column in columns], len(heads))


def print_table(rows: Sequence[Any], columns: Sequence[Column], notes: Sequence[str] = ()) -> None:
    """Print `text_table` of the rows and, below, ``notes``."""
    print("\n".join([text_table(rows, columns), *notes]))
