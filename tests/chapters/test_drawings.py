"""Drawings of the pages on profiling and the machine: what is drawn from parameters is what these say."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tinytorch.chapters import machine_drawings
from tinytorch.chapters.profiling import drawings
from tinytorch.report import Drawing, Page


def widths(drawing: Drawing, words: str) -> list[float]:
    """Return the widths of the boxes whose words these are."""
    elements = list(ET.fromstring(drawing.svg(key="a", alt="b")))
    found = []
    for box, text in pairwise(elements):
        if box.tag.endswith("rect") and text.text == words:
            found.append(float(box.get("width", "0")))
    return found


@pytest.mark.parametrize(("share", "speedup"), [(0.6, 3.0), (0.75, 2.0)])
def test_the_bars_of_amdahl_are_as_long_as_the_law_says(share: float, speedup: float) -> None:
    drawing = drawings.amdahls_bars(share, speedup)
    (rest, *_), (before,), (after,) = (widths(drawing, words) for words in ("1 − p", "p", "p / s"))
    assert (rest + before) / (rest + after) == pytest.approx(1 / (1 - share + share / speedup), rel=1e-3)
    assert (rest + before) / rest == pytest.approx(1 / (1 - share), rel=1e-3)


def test_of_many_drawn_intervals_nineteen_of_twenty_hold_the_truth() -> None:
    svg = machine_drawings.repeated_intervals(repeats=400, samples=15, seed=3).svg(key="a", alt="b")
    missed = len(re.findall(">misses<", svg))
    assert missed == pytest.approx(400 * 0.05, abs=4 * np.sqrt(400 * 0.05 * 0.95))


def test_each_drawing_has_a_key_of_its_own() -> None:
    page = Page("profiling")
    before = len(page.records)
    for show in (drawings.show_seam, drawings.show_amdahl, drawings.show_products):
        show(page)
    for show in (machine_drawings.show_walk, machine_drawings.show_turns, machine_drawings.show_intervals):
        show(page)
    assert [record.kind for record in page.records[before:]] == ["figure"] * 6
