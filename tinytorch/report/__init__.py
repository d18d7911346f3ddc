"""Report: how a measurement reaches a page, by records, numbers, tables, charts, claims and provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinytorch.perf.measuring.judge import OF_CLAIMS, decided, verdict_between, verdict_between_all, verdict_of_all
from tinytorch.report.colors import VARIANTS, color
from tinytorch.report.drawings import Drawing
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.page import Page
from tinytorch.report.records import Record, measurement_from_record
from tinytorch.report.rows import flattened, points
from tinytorch.report.tables import Column
from tinytorch.report.verdicts import Claim

if TYPE_CHECKING:
    from tinytorch.report.charts import bars, distribution, dots, dumbbell, lines

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
    "distribution",
    "dots",
    "dumbbell",
    "flattened",
    "format_measurement",
    "format_number",
    "lines",
    "measurement_from_record",
    "points",
    "verdict_between",
    "verdict_between_all",
    "verdict_of_all",
]


def __getattr__(name: str) -> Any:
    """Return what draws, loaded when it is asked for: matplotlib takes a third of a second."""
    if name in ("bars", "distribution", "dots", "dumbbell", "lines"):
        from tinytorch.report import charts

        return getattr(charts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
