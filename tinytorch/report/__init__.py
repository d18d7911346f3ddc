"""Report: how a measurement reaches a page, by records, numbers, tables, figures, claims and provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinytorch.perf.measuring.judge import OF_CLAIMS, decided, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.report.colors import VARIANTS, color
from tinytorch.report.drawings import Drawing
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.page import Page
from tinytorch.report.records import Record, measurement_from_record
from tinytorch.report.tables import Column
from tinytorch.report.verdicts import Claim

if TYPE_CHECKING:
    from tinytorch.report.figures import bars, line, subplots

__all__ = [
    "OF_CLAIMS",
    "VARIANTS",
    "Claim",
    "Column",
    "Drawing",
    "Page",
    "Record",
    "bars",
    "color",
    "decided",
    "format_measurement",
    "format_number",
    "line",
    "measurement_from_record",
    "subplots",
    "verdict_between",
    "verdict_between_all",
    "verdict_of_all",
]


def __getattr__(name: str) -> Any:
    """Return what draws, loaded when it is asked for: matplotlib takes a third of a second."""
    if name in ("bars", "line", "subplots"):
        from tinytorch.report import figures

        return getattr(figures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
