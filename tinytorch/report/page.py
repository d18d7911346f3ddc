"""One page of the book: every number, word, table, figure and claim that its cells hand to the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tinytorch.perf.timing import Measurement
    from tinytorch.report.records import Record, Shown
    from tinytorch.report.tables import Column


class Page:
    """The records of one page, emitted as they are made.

    ``Page("profiling")`` records the machine, the BLAS and the package first. Keys are lower-case words
    joined by hyphens, unique on the page. Each method records, shows what there is to see, and returns the
    `Shown` thing.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[Record] = []

    def number(
        self,
        key: str,
        value: Measurement | int | float,
        *,
        unit: str | None = None,
        what: str | None = None,
        modelled: bool = False,
    ) -> Shown:
        """Record a number for `{measured}`: a `Measurement`, or an exact count with ``unit`` and ``what``."""
        raise NotImplementedError

    def word(self, key: str, word: str, *, because: str) -> Shown:
        """Record a verdict word for `{verdict}` that code chose; ``because`` may hold ``{key}`` of numbers."""
        raise NotImplementedError

    def table(
        self,
        key: str,
        rows: Sequence[Mapping[str, Any]],
        columns: Sequence[Column | tuple[str, str] | tuple[str, str, str]],
        *,
        caption: str,
    ) -> Shown:
        """Show and record a table; rows map a column's key to a `Measurement`, a number or a string."""
        raise NotImplementedError

    def figure(self, key: str, figure: Figure, *, caption: str, alt: str) -> Shown:
        """Show and record a figure made with `subplots`, as SVG that follows light and dark."""
        raise NotImplementedError

    def claim(
        self,
        key: str,
        *,
        statement: str,
        source: str,
        verdict: str,
        evidence: str,
        numbers: Sequence[str] = (),
        source_url: str | None = None,
    ) -> Shown:
        """Record a claim for the ``{claim}`` directive; ``evidence`` may hold ``{key}`` of numbers."""
        raise NotImplementedError
