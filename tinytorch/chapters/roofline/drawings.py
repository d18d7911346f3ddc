"""Drawings of this machine's ceilings: the hierarchy of its memory, and the roof over it, to scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tinytorch.perf.machine import Ceilings
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.report.drawings import WIDTH, Drawing, text_width
from tinytorch.report.numbers import format_measurement, format_number

#: What arithmetic and bytes are drawn with.
ARITHMETIC, BYTES = "compiled", "numpy"
#: Units that a drawing keeps between two words beside each other.
_APART = 9.0


def hierarchy(machine: Ceilings, *, core: str, reported: str, unreported: str, rest: str) -> Drawing:
    """Return the core and below it the levels, each wider than the one above, with a bar as wide as its bandwidth.

    The size of a level stands before ``reported``; ``rest`` is what the last one holds.
    """
    step, high = 74.0, 42.0
    drawing = Drawing(46 + step * len(machine.levels))
    middle, narrow, wide = 190.0, 190.0, 372.0
    drawing.box(middle - 60, 2, 120, 34, core, color=ARITHMETIC)
    fastest = max(best_bandwidth(level).median for level in machine.levels)
    for index, level in enumerate(machine.levels):
        bandwidth, size = best_bandwidth(level), level.capacity_reported
        holds = unreported if size is None else f"{format_number(size, 'B').text} {reported}"
        width = narrow + (wide - narrow) * index / max(1, len(machine.levels) - 1)
        top = 36 + step * index + (step - high)
        across = max(1.0, 44 * bandwidth.median / fastest)
        drawing.line((middle, top), (middle, top - (step - high)), color=BYTES, width=across)
        drawing.text(middle + 32, top - 11, format_measurement(bandwidth).text, anchor="start")
        words = f"{level.name}: {rest if level is machine.levels[-1] else holds}"
        drawing.box(middle - width / 2, top, width, high, words, color=BYTES)
    return drawing


def roof(machine: Ceilings, *, xlabel: str, ylabel: str, peak: str, left: str, right: str) -> Drawing:
    """Return the roof over the machine's levels, on logarithmic axes; the words say what decides on either side."""
    drawing = Drawing(282)
    start, stop, bottom, flat = 26.0, 472.0, 232.0, 46.0
    ridges = [machine.fp32_peak.median / best_bandwidth(level).median for level in machine.levels]
    first, last = min(ridges) / 12, max(ridges) * 5
    unit = (stop - start) / math.log(last / first)
    rise = (bottom - flat) / math.log(max(ridges) / first)
    drawing.line((start, bottom), (stop, bottom), arrow=True)
    drawing.line((start, bottom), (start, 8), arrow=True)
    drawing.text(stop, bottom + 38, xlabel, anchor="end")
    drawing.text(start + 10, 20, ylabel, anchor="start")
    corners = [start + math.log(ridge / first) * unit for ridge in ridges]
    drawing.line((min(corners), flat), (stop, flat), color=ARITHMETIC, width=3)
    drawing.text(stop, flat - 9, peak, anchor="end", color=ARITHMETIC)
    for ridge, corner in zip(ridges, corners, strict=True):
        drawing.line((start, flat + math.log(ridge / first) * rise), (corner, flat), color=BYTES, width=2.5)
        drawing.line((corner, flat), (corner, bottom), dashed=True)
        drawing.circle(corner, flat, 4.5, color=ARITHMETIC)
    names = [level.name for level in machine.levels]
    for name, at in zip(names, _side_by_side(names, corners), strict=True):
        drawing.text(at, bottom + 18, name)
    drawing.text(start + 8, flat + 20, left, anchor="start")
    drawing.text((max(corners) + stop) / 2, 140, right)
    return drawing


def _side_by_side(words: Sequence[str], wanted: Sequence[float]) -> list[float]:
    """Return the middles of words in a line: as ``wanted``, but for those that would touch another or the edge."""
    halves = [(text_width(word) + _APART) / 2 for word in words]
    places = list(wanted)
    order = sorted(range(len(words)), key=lambda index: wanted[index])
    for one, other in pairwise(order):
        places[other] = max(places[other], places[one] + halves[one] + halves[other])
    edge = WIDTH
    for index in reversed(order):
        places[index] = min(places[index], edge - halves[index])
        edge = places[index] - halves[index]
    return places
