"""Drawings of the page on rooflines: overlap, the memory hierarchy, the roof, a product of rows, the cost of a call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tinytorch.perf.machine import Ceilings
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.report import Drawing, Page, format_measurement, format_number
from tinytorch.report.drawings import WIDTH, text_width

#: What arithmetic, bytes and calls are drawn with, in all drawings.
ARITHMETIC, BYTES, CALLS = "compiled", "numpy", "quantized"
#: Units that a drawing keeps between two words beside each other.
_APART = 9.0


def show_two_times(page: Page) -> None:
    """Show the two times with overlap and without."""
    page.drawing(
        "two-times",
        two_times(),
        caption="Where a processor computes on what has come while more is on its way, the longer of the two times "
        "counts. Where it does one after the other, their sum.",
        alt="Above, a short bar of arithmetic and a long bar of bytes begin at the same moment and the longer one is "
        "the time; below, the same two bars stand one behind the other and the time is their sum.",
    )


def two_times() -> Drawing:
    """Return the two times beside each other, and one behind the other."""
    drawing = Drawing(190)
    left, math_width, byte_width, high = 96.0, 130.0, 236.0, 26.0
    drawing.text(0, 46, "overlap", anchor="start", bold=True)
    drawing.box(left, 10, math_width, high, "arithmetic", color=ARITHMETIC)
    drawing.box(left, 40, byte_width, high, "bytes", color=BYTES)
    drawing.brace((left, 72), (left + byte_width, 72), "time: the longer one")
    drawing.text(0, 146, "no overlap", anchor="start", bold=True)
    drawing.box(left, 128, byte_width, high, "bytes", color=BYTES)
    drawing.box(left + byte_width, 128, math_width, high, "arithmetic", color=ARITHMETIC)
    drawing.brace((left, 160), (left + byte_width + math_width, 160), "time: the sum")
    return drawing


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


def show_rows(page: Page) -> None:
    """Show which numbers one weight of a product meets."""
    page.drawing(
        "rows",
        rows(),
        caption="A product of three rows. The marked weight is read once. It meets one number of each row and adds to "
        "one number of each row of the result: a multiply-add a row.",
        alt="Three grids: inputs of three rows times weights equals a result of three rows. One weight is marked, with "
        "one column of the inputs and one column of the result.",
    )


def rows(count: int = 3, inner: int = 4, outer: int = 5, marked: tuple[int, int] = (1, 3)) -> Drawing:
    """Return a product of ``count`` rows, with what the weight in the row and column ``marked`` meets."""
    drawing = Drawing(176)
    size, top = 25.0, 30.0
    row, column = marked
    middle = top + inner * size / 2
    for_rows = middle - count * size / 2
    x, w, y = 8.0, 8 + inner * size + 42, 8 + (inner + outer) * size + 84
    drawing.text(x + inner * size / 2, 18, "inputs")
    drawing.text(w + outer * size / 2, 18, "weights")
    drawing.text(y + outer * size / 2, 18, "result")
    drawing.cells(x, for_rows, count, inner, size, color=lambda _, at: ARITHMETIC if at == row else None)
    drawing.cells(w, top, inner, outer, size, color=lambda r, c: BYTES if (r, c) == (row, column) else None)
    drawing.cells(y, for_rows, count, outer, size, color=lambda _, at: ARITHMETIC if at == column else None)
    drawing.text(x + inner * size + 21, middle + 5, "×")
    drawing.text(w + outer * size + 21, middle + 5, "=")
    drawing.text(w + outer * size / 2, 156, "one read, a multiply-add a row")
    return drawing


def show_call(page: Page) -> None:
    """Show the time of an operation over its size, with the cost of its call."""
    page.drawing(
        "call",
        call(),
        caption="Time over size, both axes logarithmic. A call costs the same for one number as for a thousand; where "
        "the bytes alone take as long as the call, they begin to decide.",
        alt="A level dashed line, the cost of the call, and a rising dashed line, the bytes over the bandwidth; the "
        "time follows the first on the left, the second on the right, and lies above both where they cross.",
    )


def call() -> Drawing:
    """Return the time of an operation that costs a call and its bytes, over its size."""
    drawing = Drawing(220)
    left, right, bottom, high = 30.0, 470.0, 182.0, 10.0
    cost, begin, end = 122.0, (150.0, bottom), (414.0, 18.0)
    crossing = begin[0] + (end[0] - begin[0]) * (bottom - cost) / (bottom - end[1])
    drawing.line((left, bottom), (right, bottom), arrow=True)
    drawing.line((left, bottom), (left, high), arrow=True)
    drawing.text(left + 10, high + 12, "time", anchor="start")
    drawing.text(right, bottom + 20, "size", anchor="end")
    drawing.line((left, cost), (right, cost), color=CALLS, dashed=True)
    drawing.line(begin, end, color=BYTES, dashed=True)
    drawing.line((crossing, cost), (crossing, bottom), dashed=True)
    drawing.text(left + 10, cost + 22, "cost of the call", anchor="start")
    drawing.text(296, 60, "bytes / bandwidth", anchor="end", color=BYTES)
    drawing.text(crossing, bottom + 20, "as long as the call")
    decades = math.log(1000) / (end[0] - begin[0])  # of time along the drawn width of the slope
    per_unit = (bottom - end[1]) / math.log(1000)

    def time_at(x: float) -> float:
        return cost - math.log1p(math.exp((x - crossing) * decades)) * per_unit

    drawing.line(*((x, time_at(x)) for x in range(int(left), int(end[0]), 8)), width=3)
    return drawing
