"""The page that sets a reader's machine beside the book's: the roofs of the book's, and four operations below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinytorch.chapters import calls
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.perf.roofline.placement import Placed, place_call
from tinytorch.report import Column, Page
from tinytorch.report.roofline_figure import roofline_figure

#: What holds a level of the memory or does arithmetic; ``of`` is "arithmetic" or "memory".
ROOF_COLUMNS = (
    Column("roof", "Roof"),
    Column("threads", "Threads", "1"),
    Column("of", "Of"),
    Column("rate", "At most"),
    Column("holds", "Holds, as reported", "B"),
)


def roofs() -> list[Ceilings]:
    """Return the ceilings of one thread and, where this process may use several cores, those of all of them."""
    cores = identity().cores_usable
    return [ceilings(threads) for threads in ((1, cores) if cores > 1 else (1,))]


def placed_operations(one: Ceilings, width: int = 1024) -> list[Placed]:
    """Return four operations on matrices that are ``width`` wide, placed under the ceilings of one thread."""
    draw = np.random.default_rng(0)

    def array(*shape: int) -> Tensor:
        return Tensor(draw.standard_normal(shape, dtype=np.float32))

    a, b, row = array(width, width), array(width, width), array(1, width)
    runs = {
        "add": lambda: apply(ops.add, a, b),
        "GELU": lambda: apply(ops.gelu, a),
        "matrix × vector": lambda: apply(ops.matmul, row, a),
        "matrix × matrix": lambda: apply(ops.matmul, a, b),
    }
    return [calls.on_a_million(place_call(name, run, one)) for name, run in runs.items()]


def record_roofline(page: Page, placed: Sequence[Placed], one: Ceilings) -> None:
    """Draw the roofline of one thread with the operations on it."""
    page.figure(
        "roofline",
        roofline_figure(placed, one),
        caption="The roofline of one core of the machine that built the book, with four operations on 1024 × 1024 "
        "numbers.",
        alt="Log-log plot of rate over arithmetic intensity: sloped lines for caches and memory meet flat lines; "
        "four numbered points are the operations.",
    )


def record_roofs(page: Page, made: Sequence[Ceilings], placed: Sequence[Placed]) -> None:
    """Record what the explorer of rooflines draws: the roofs, and the operations of the figure."""
    page.table(
        "roofs",
        roof_rows(made),
        ROOF_COLUMNS,
        caption="The roofs of the machine that built the book: arithmetic, and the best bandwidth of each level of its "
        "memory.",
    )
    points = [
        {
            "name": one.name,
            "seconds": one.seconds,
            "bound": one.verdict.said,
            "of_roof": one.of_roof,
            "attained": one.attained,
            "intensity": one.intensity,
        }
        for one in placed
    ]
    # The explorer reads the points by these keys, also from files that were sent.
    headings = ("What", "Time", "Verdict", "Of its roof", "Rate", "Intensity")
    page.table(
        "ops",
        points,
        dict(zip(points[0], headings, strict=True)),
        caption="The operations in the figure: one thread, a million numbers each.",
    )
    page.table(
        "ops-roofs",
        placed,
        {
            "name": "What",
            "arithmetic": "Arithmetic",
            "traffic": "Compulsory traffic",
            "slope.of": "Bytes from",
            "slope.bandwidth": "At most",
            "least": "Least time",
        },
        caption=f"What is asked for, from {placed[0].name} to {placed[-1].name}, and where the roof of each takes the "
        "bytes from: the level that holds them, at its bandwidth; between two levels, at the bandwidth measured at "
        "that size; where several deliver, at the mean over all bytes.",
    )


def roof_rows(made: Sequence[Ceilings]) -> list[dict[str, Any]]:
    """Return a row for each flat roof and each slope of each of the ceilings, for `ROOF_COLUMNS`.

    Flat roofs are "FP32" in FLOP/s and "INT8" in OP/s. Slopes are the levels by
    name, in B/s, the best of read, copy and triad; those with a reported size hold so many bytes.
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
                "holds": level.capacity_reported,
            }
            for level in one.levels
        ]
    return rows
