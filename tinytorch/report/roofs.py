"""The roofs of a machine as rows of a table: what a page shows, and what an interactive roofline is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinytorch.perf.machine import Ceilings
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.report.tables import Column

#: What holds a level of the memory or does arithmetic; ``of`` is "arithmetic" or "memory".
ROOF_COLUMNS = (
    Column("roof", "Roof"),
    Column("threads", "Threads", "1"),
    Column("of", "Of"),
    Column("rate", "At most"),
    Column("holds", "Holds", "B"),
)


def roof_rows(made: Sequence[Ceilings]) -> list[dict[str, Any]]:
    """Return a row for each flat roof and each slope of each of the ceilings, for `ROOF_COLUMNS`.

    Flat roofs are "FP32" in FLOP/s and "INT8" in OP/s. Slopes are the levels by
    name, in B/s, the best of read, copy and triad; those with a capacity hold so many bytes.
    """
    rows: list[dict[str, Any]] = []
    for one in made:
        arithmetic = {"FP32": one.fp32_peak, "INT8": one.int8_peak}
        rows += [
            {"roof": name, "threads": one.threads, "of": "arithmetic", "rate": peak, "holds": None}
            for name, peak in arithmetic.items()
        ]
        rows += [
            {
                "roof": level.name,
                "threads": one.threads,
                "of": "memory",
                "rate": best_bandwidth(level),
                "holds": level.capacity_measured,
            }
            for level in one.levels
        ]
    return rows
