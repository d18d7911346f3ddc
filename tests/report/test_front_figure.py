"""The Pareto plot: every variant is named, beaten ones in brackets, and the figure passes the book's rules."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.text import Annotation

from tinytorch.perf.benchmarking import ParetoFront, Performance
from tinytorch.perf.measuring import Measurement, quantity
from tinytorch.report import figures, subplots
from tinytorch.report.front_figure import draw_front


def performance(name: str, seconds: float, right: int | None) -> Performance:
    times = Measurement(name, tuple(seconds * (1 + 0.01 * np.arange(10))), "s")
    correct = None if right is None else np.arange(100) < right
    return Performance(name, "forward", {8: (times,)}, {8: quantity(1, "B", name)}, 1, correct, "run")


def test_all_are_drawn_and_named() -> None:
    figure, ax = subplots()
    measured = [performance("slow", 0.02, 95), performance("fast", 0.005, 90), performance("poor", 0.021, 80)]
    draw_front(ax, measured, ParetoFront(("slow", "fast"), {"poor": ("slow",)}, {}), 8)
    figures.check_figure(figure, caption="c", alt="a", key="front")
    names = [text for text in ax.texts if isinstance(text, Annotation)]
    assert [text.get_text() for text in names] == ["slow", "fast", "(poor)"]
    # From the top in the order of accuracy, each pointing at its place in ms and per cent.
    heights = [text.xyann[1] for text in names]
    assert heights == sorted(heights, reverse=True)
    assert names[1].xy == pytest.approx((5 * 1.045, 90))
    body = figures.to_body(figure, caption="c", alt="a", key="front")
    assert [series["label"] for series in body["series"]] == ["slow", "fast", "poor"]
    assert body["series"][0]["numbers"][0]["n"] == 100


def test_without_an_accuracy_there_is_no_place() -> None:
    _, ax = subplots()
    with pytest.raises(ValueError, match="'blind' has none"):
        draw_front(ax, [performance("blind", 0.02, None)], ParetoFront(("blind",), {}, {}), 8)
