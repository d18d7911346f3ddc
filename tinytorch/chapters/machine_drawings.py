"""The drawing of the page on the machine of what an interval promises."""

from __future__ import annotations

import numpy as np

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Drawing, Page

#: Repeats in the drawing of intervals, and samples in each.
_REPEATS, _SAMPLES = 20, 15


def repeated_intervals(repeats: int = _REPEATS, samples: int = _SAMPLES, seed: int = 1) -> Drawing:
    """Return the 95 % intervals of the median of repeated measurements of one thing, drawn at random, and the truth."""
    draw = np.random.default_rng(seed)
    taken = [Measurement("drawn", tuple(draw.normal(0, 1, samples)), "") for _ in range(repeats)]
    step, top, middle, wide = 12.0, 34.0, 240.0, 130.0
    drawing = Drawing(top + repeats * step + 30)
    bottom = top + repeats * step
    drawing.line((middle, top - 8), (middle, bottom + 4), color="baseline", width=3)
    drawing.text(middle, 18, "the true median")
    for index, one in enumerate(taken):
        y = top + (index + 0.5) * step
        low, high = (middle + wide * end for end in (one.interval.low, one.interval.high))
        holds = low <= middle <= high
        drawing.line((low, y), (high, y), color="forward" if holds else "waiting", width=2.5)
        drawing.circle(middle + wide * one.median, y, 2.5, color="forward" if holds else "waiting")
        if not holds:
            drawing.text(10, y + 5, "misses", anchor="start")
    drawing.text(middle, bottom + 24, "each line: one measurement and its interval")
    return drawing


def show_intervals(page: Page) -> None:
    """Show `repeated_intervals`."""
    page.drawing(
        "intervals",
        repeated_intervals(),
        caption=f"What an interval promises: {_REPEATS} measurements of the same thing, {_SAMPLES} samples each, drawn "
        "from a made distribution whose median is known. Of many such intervals at least 95 in a hundred hold it.",
        alt="Horizontal lines, one below the other, most of which cross an upright line that marks the true median; "
        "those that miss it are marked.",
    )
