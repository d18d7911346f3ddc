"""Drawings of the page on rooflines from this machine's ceilings: the memory hierarchy, and the roof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tinytorch.perf.machine import Ceilings
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.report import Drawing, Page, format_measurement, format_number
from tinytorch.report.drawings import WIDTH, text_width

#: What arithmetic and bytes are drawn with.
ARITHMETIC, BYTES = "compiled", "numpy"
#: Units that a drawing keeps between two words beside each other.
_APART = 9.0


def show_hierarchy(page: Page, machine: Ceilings) -> None:
    """Show the levels of the machine's memory, what each holds and how fast its bytes come."""
    page.drawing(
        "hierarchy",
        hierarchy(
            [
                (
                    level.name,
                    "all the rest" if level is machine.levels[-1] else _size(level.capacity_reported),
                    format_measurement(best_bandwidth(level)).text,
                    best_bandwidth(level).median,
                )
                for level in machine.levels
            ]
        ),
        caption="The memory of one core here. Each level holds more than the one above it and brings its bytes to the "
        "core more slowly: the width of a bar between them stands for its bandwidth.",
        alt="The core at the top and below it one box for each level of the memory, each wider than the one above, "
        "with a bar from it upwards that is thinner the farther the level is from the core.",
    )


def _size(reported: int | None) -> str:
    return "size not reported" if reported is None else f"{format_number(reported, 'B').text} reported"


def hierarchy(levels: Sequence[tuple[str, str, str, float]]) -> Drawing:
    """Return the core and, below it, the levels: of each its name, what it holds, its bandwidth in words and in B/s."""
    step, high = 74.0, 42.0
    drawing = Drawing(46 + step * len(levels))
    middle, narrow, wide = 190.0, 190.0, 372.0
    drawing.box(middle - 60, 2, 120, 34, "core", color=ARITHMETIC)
    fastest = max(bandwidth for *_, bandwidth in levels)
    for index, (name, holds, said, bandwidth) in enumerate(levels):
        width = narrow + (wide - narrow) * index / max(1, len(levels) - 1)
        top = 36 + step * index + (step - high)
        drawing.line(
            (middle, top), (middle, top - (step - high)), color=BYTES, width=max(1.0, 44 * bandwidth / fastest)
        )
        drawing.text(middle + 32, top - 11, said, anchor="start")
        drawing.box(middle - width / 2, top, width, high, f"{name}: {holds}", color=BYTES)
    return drawing


def show_roof(page: Page, machine: Ceilings) -> None:
    """Show the roof over the machine's levels as one would draw it on a blackboard."""
    levels = [(level.name, best_bandwidth(level).median) for level in machine.levels]
    page.drawing(
        "roof",
        roof(machine.fp32_peak.median, levels),
        caption="The roof over an operation's intensity, both axes logarithmic: one slope for each level of the "
        "memory, one flat roof for all, and a ridge point where each slope meets it.",
        alt="Parallel lines rise from the left, one for each level of the memory, the innermost highest, and each ends "
        "where it meets one flat line; a dashed line falls from each of these corners to the axis of intensity.",
    )


def roof(peak: float, levels: Sequence[tuple[str, float]]) -> Drawing:
    """Return the roof of ``peak`` FLOP/s over levels of (name, B/s), drawn to scale on logarithmic axes."""
    drawing = Drawing(282)
    left, right, bottom, flat = 26.0, 472.0, 232.0, 46.0
    ridges = [peak / bandwidth for _, bandwidth in levels]
    first, last = min(ridges) / 12, max(ridges) * 5
    unit = (right - left) / math.log(last / first)
    rise = (bottom - flat) / math.log(max(ridges) / first)

    def across(intensity: float) -> float:
        return left + math.log(intensity / first) * unit

    drawing.line((left, bottom), (right, bottom), arrow=True)
    drawing.line((left, bottom), (left, 8), arrow=True)
    drawing.text(right, bottom + 38, "intensity (FLOP/B)", anchor="end")
    drawing.text(left + 10, 20, "rate (FLOP/s)", anchor="start")
    drawing.line((across(min(ridges)), flat), (right, flat), color=ARITHMETIC, width=3)
    drawing.text(right, flat - 9, "peak", anchor="end", color=ARITHMETIC)
    beyond = left
    for ridge in ridges:
        corner = across(ridge)
        begin = flat + math.log(ridge / first) * rise
        drawing.line((left, begin), (corner, flat), color=BYTES, width=2.5)
        drawing.line((corner, flat), (corner, bottom), dashed=True)
        beyond = max(beyond, corner)
        drawing.circle(corner, flat, 4.5, color=ARITHMETIC)
    names = [name for name, _ in levels]
    for name, at in zip(names, _side_by_side(names, [across(ridge) for ridge in ridges]), strict=True):
        drawing.text(at, bottom + 18, name)
    drawing.text(left + 8, flat + 20, "bytes\ndecide", anchor="start")
    drawing.text((beyond + right) / 2, 140, "arithmetic\ndecides")
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
