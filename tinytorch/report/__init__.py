"""Report: how a measurement reaches a page, by records, numbers, tables, charts, claims and provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinytorch.perf.measuring.judge import verdict_between
from tinytorch.report.page import Page
from tinytorch.report.rows import points

if TYPE_CHECKING:
    from tinytorch.report.charts import arrows, bars, dots, histogram, lines

__all__ = ["Page", "arrows", "bars", "dots", "histogram", "lines", "points", "verdict_between"]


def __getattr__(name: str) -> Any:
    """Return what draws, loaded when it is asked for: matplotlib takes a third of a second."""
    if name in ("arrows", "bars", "dots", "histogram", "lines"):
        from tinytorch.report import charts

        return getattr(charts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
