"""Drawings of the page on quantization: rulers of codes, the integer product, a register, who shares a scale."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tinytorch.perf.ops.affine import Scheme, encode, range_parameters
from tinytorch.report import Drawing, Page

#: The numbers on which the page lays its rulers, and the one that is rounded by hand.
LOW, HIGH, ROUNDED = -1.0, 1.6, 0.5
#: Where the number line of the rulers begins and ends, and how many units a number takes.
_LEFT, _RIGHT = -1.75, 2.15
_UNIT = 440 / (_RIGHT - _LEFT)
#: Bits of the rulers that are drawn: few enough to see their marks.
_BITS = 4


def ruler_drawing(low: float, high: float, number: float) -> Drawing:
    """Return an affine and a symmetric ruler of four bits over ``low`` to ``high``, and ``number`` rounded on each."""
    drawing = Drawing(274)
    for top, symmetric in ((0.0, False), (140.0, True)):
        scheme = Scheme(_BITS, symmetric=symmetric)
        step, zero = (part.item() for part in range_parameters(low, high, scheme))
        marks = {code: step * (code - zero) for code in range(scheme.low, scheme.high + 1)}
        title = "symmetric: code 0 is zero" if symmetric else "affine: all codes over the range of the data"
        drawing.text(20, top + 16, title, anchor="start", bold=True)
        drawing.box(_at(low), top + 64, _at(high) - _at(low), 20, color="8-bit")
        drawing.line((20, top + 74), (460, top + 74))
        for code, place in marks.items():
            long = code in (scheme.low, zero, scheme.high)
            drawing.line((_at(place), top + (66 if long else 69)), (_at(place), top + (86 if long else 79)))
        drawing.text(462, top + 102, "code", anchor="end")
        for code in (scheme.low, zero, scheme.high):
            drawing.text(_at(marks[code]), top + 102, _signed(code))
        drawing.text(_at(0), top + 120, "zero")
        nearest = step * (encode(np.array([number], np.float32), step, zero, scheme).item() - zero)
        drawing.line((_at(number), top + 46), (_at(nearest), top + 64), color="2-bit", arrow=True, width=2)
        drawing.text(_at(number), top + 42, f"{number:g}")
    return drawing


def _at(number: float) -> float:
    return 20 + (number - _LEFT) * _UNIT


def _signed(number: float) -> str:
    return f"{number:g}".replace("-", "\u2212")


def product_drawing(inputs: Sequence[int], weights: Sequence[int], scale: float) -> Drawing:
    """Return the way of codes of inputs and weights through products and their sum to a real number."""
    drawing = Drawing(262)
    wide = 92.0
    left = 460 - wide * len(inputs)
    products = [x * w for x, w in zip(inputs, weights, strict=True)]
    rows = (
        (8.0, "input, 8 bits", inputs, "8-bit"),
        (62.0, "weight, 8 bits", weights, "4-bit"),
        (116.0, "product, 16 bits", products, None),
    )
    for top, name, numbers, color in rows:
        drawing.text(left - 12, top + 21, name, anchor="end")
        drawing.cells(left, top, 1, len(numbers), (wide, 30), color=color, label=partial(_nth, numbers))
    for at in range(len(inputs)):
        middle = left + (at + 0.5) * wide
        drawing.text(middle, 55, "×")
        drawing.line((middle, 94), (middle, 114), arrow=True)
        drawing.line((middle, 148), (left + len(inputs) * wide / 2, 170), arrow=at == len(inputs) // 2)
    drawing.text(left - 12, 191, "sum, 32 bits", anchor="end")
    drawing.box(left, 170, wide * len(inputs), 30, _signed(sum(products)), color="2-bit")
    drawing.line((left + len(inputs) * wide / 2, 200), (left + len(inputs) * wide / 2, 224), arrow=True)
    drawing.text(left + len(inputs) * wide / 2 + 12, 218, "× scales", anchor="start")
    drawing.text(left - 12, 246, "output, float32", anchor="end")
    drawing.box(left, 226, wide * len(inputs), 30, _signed(round(sum(products) * scale, 4)), color="float32")
    return drawing


def _nth(numbers: Sequence[int], _row: int, at: int) -> str:
    return _signed(numbers[at])


def lanes_drawing(bits: int = 512) -> Drawing:
    """Return a vector register of so many bits, once with float32 and once with codes of eight bits."""
    drawing = Drawing(158)
    for top, each, name, color in ((0.0, 32, "float32", "float32"), (80.0, 8, "codes of 8 bits", "8-bit")):
        lanes = bits // each
        drawing.text(16, top + 18, f"{lanes} {name}", anchor="start", bold=True)
        drawing.text(464, top + 18, f"{lanes} multiply-adds", anchor="end")
        drawing.cells(16, top + 30, 1, lanes, (448 / lanes, 34), color=color)
    return drawing


def sharing_drawing(side: int = 8, group: int = 4, at: tuple[int, int] = (5, 2)) -> Drawing:
    """Return a weight with one outlier three times: who shares its scale per tensor, per channel and per group."""
    drawing = Drawing(214)
    size = 17.0
    row, column = at
    first = row // group * group
    one, channel, some = (np.zeros((side, side), bool) for _ in range(3))
    one[:], channel[:, column], some[first : first + group, column] = True, True, True
    for index, (name, shared) in enumerate((("one scale", one), ("per channel", channel), ("per group", some))):
        left = 12 + index * 160.0
        drawing.text(left + size * side / 2, 18, name, bold=True)
        drawing.cells(left, 30, side, side, size, color=partial(_tint, shared, at), label=partial(_cross, at))
        words = f"{int(shared.sum())} of {shared.size}\nget its step"
        drawing.text(left + size * side / 2, 30 + side * size + 22, words)
    return drawing


def _tint(shared: npt.NDArray[np.bool_], at: tuple[int, int], row: int, column: int) -> str | None:
    return "2-bit" if (row, column) == at else "4-bit" if shared[row, column] else None


def _cross(at: tuple[int, int], row: int, column: int) -> str:
    return "×" if (row, column) == at else ""


def show_ruler(page: Page) -> None:
    """Show the affine and the symmetric ruler."""
    page.drawing(
        "ruler",
        ruler_drawing(LOW, HIGH, ROUNDED),
        caption="Two rulers with sixteen codes for the same numbers, which fill the tinted range. The symmetric one "
        "spends codes on negative numbers that do not come. An arrow leads from a number to its mark.",
        alt="Two number lines with evenly spaced marks. On the affine one all sixteen marks lie over the data's range. "
        "On the symmetric one fifteen marks lie evenly about zero, and those at the far left lie outside of the range.",
    )


def show_product(page: Page) -> None:
    """Show the integer product."""
    page.drawing(
        "integer-product",
        product_drawing((12, -98, 127), (64, 3, -80), 1e-4),
        caption="A product of codes: bytes are multiplied, their products added in 32 bits, and one multiplication by "
        "both scales makes a real number of the sum.",
        alt="Three codes of an input above three codes of a weight; arrows lead to their three products, from these to "
        "one sum of 32 bits, and from it, times both scales, to a float32 number.",
    )


def show_lanes(page: Page) -> None:
    """Show what a vector register holds."""
    page.drawing(
        "lanes",
        lanes_drawing(),
        caption="One vector register of 512 bits. An instruction multiplies and adds all that it holds at once.",
        alt="A strip of sixteen wide cells, float32, above a strip as long of sixty-four narrow cells, codes of eight "
        "bits.",
    )


def show_sharing(page: Page) -> None:
    """Show who shares an outlier's scale."""
    page.drawing(
        "sharing",
        sharing_drawing(),
        caption="A weight with one outlier, the cell with a cross. The tinted numbers share its scale and are "
        "rounded as coarsely as it needs.",
        alt="Three grids of cells with one outlier at the same place. With one scale all cells are tinted, with a "
        "scale for each channel its column, with a scale for each group a part of its column.",
    )
