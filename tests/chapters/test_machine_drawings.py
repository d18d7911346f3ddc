"""The drawing of the page on the machine shows intervals as the package makes them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tinytorch.chapters import machine_drawings
from tinytorch.report import Page


def test_of_many_drawn_intervals_nineteen_of_twenty_hold_the_truth() -> None:
    svg = machine_drawings.repeated_intervals(repeats=400, samples=15, seed=3).svg(key="a", alt="b")
    missed = len(re.findall(">misses<", svg))
    assert missed == pytest.approx(400 * 0.05, abs=4 * np.sqrt(400 * 0.05 * 0.95))


def test_it_is_a_figure_of_the_page() -> None:
    page = Page("machine")
    machine_drawings.show_intervals(page)
    assert page.records[-1].kind == "figure"
