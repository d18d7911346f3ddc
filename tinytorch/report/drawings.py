"""Drawings that depend on what was measured: boxes, cells, arrows and words as SVG, checked to fit.

A plot shows numbers to scale; a drawing shows how a thing works, as one would on a blackboard. One in which nothing is
computed is an SVG file of the book, edited by hand. Positions are in units of which a phone shows about three for each
four, so that the words of the one size that there is can be read there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, Literal
from xml.etree import ElementTree as ET

from tinytorch.report.colors import color as color_of
from tinytorch.report.records import checked_text

_SVG = "http://www.w3.org/2000/svg"
#: Units from the left edge to the right one.
WIDTH: Final = 480.0
#: Units from baseline to baseline at the least; the size of all words.
TEXT_SIZE: Final = 15.0
_LINE = 18.0
_ARROW = 7.0
_TINTED = {"fill_opacity": 0.22, "stroke_width": 1.5}

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


@cache
def text_width(text: str, bold: bool = False) -> float:
    """Return about how many units a line of words takes; few fonts of readers are as wide as the one it is asked of."""
    if not text.strip():
        return 0.0
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return float(TextPath((0, 0), text, size=TEXT_SIZE, prop=font).get_extents().width)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _paint(color: str | None) -> str:
    return "currentColor" if color is None else color_of(color)


class Drawing:
    """A drawing under construction: what is drawn later lies above.

    Positions and sizes are in units, with (0, 0) at the top left; `WIDTH` units fill the column. A ``color`` is the
    name of a variant in `colors.VARIANTS`, or None for the page's text colour.
    """

    def __init__(self, height: float) -> None:
        if not height > 0:
            raise ValueError(f"height must be above zero units, not {height:g}")
        self.height = height
        self._elements: list[ET.Element] = []

    def _add(self, tag: str, **attributes: str | float) -> ET.Element:
        written = {key: value if isinstance(value, str) else _number(value) for key, value in attributes.items()}
        element = ET.Element(f"{{{_SVG}}}{tag}", {name.replace("_", "-"): value for name, value in written.items()})
        self._elements.append(element)
        return element

    def text(self, x: float, y: float, text: str, *, anchor: Anchor = "middle", bold: bool = False) -> None:
        """Write words whose baseline is at ``y``; several lines, of which each is set so, go downwards.

        Raises:
            ValueError: if a line reaches beyond an edge of the drawing.
        """
        for index, line in enumerate(text.split("\n")):
            width = text_width(line, bold)
            left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
            baseline = y + index * _LINE
            if left < 0 or left + width > WIDTH or baseline < TEXT_SIZE * 0.7 or baseline > self.height:
                raise ValueError(
                    f"text {line!r} must lie within {WIDTH:g} × {self.height:g} units, but takes {left:.0f} to "
                    f"{left + width:.0f} at a height of {baseline:.0f}"
                )
            element = self._add("text", x=x, y=baseline, font_size=TEXT_SIZE, fill="currentColor", text_anchor=anchor)
            element.text = line
            if bold:
                element.set("font-weight", "600")

    def box(self, x: float, y: float, width: float, height: float, text: str = "", *, color: str | None = None) -> None:
        """Draw a box with words in its middle: tinted with its colour, or only outlined.

        Raises:
            ValueError: if the words are wider or higher than the box.
        """
        fill = "none" if color is None else color_of(color)
        self._add("rect", x=x, y=y, width=width, height=height, rx=3, fill=fill, **_TINTED, stroke=_paint(color))
        if not text:
            return
        lines = text.split("\n")
        widest = max(map(text_width, lines))
        if widest > width or len(lines) * _LINE > height + 2:
            raise ValueError(
                f"text {text!r} must fit its box of {width:g} × {height:g} units, but takes "
                f"{widest:.0f} × {len(lines) * _LINE:.0f}"
            )
        first = y + height / 2 - (len(lines) - 1) * _LINE / 2 + TEXT_SIZE * 0.35
        self.text(x + width / 2, first, text)

    def cells(
        self,
        x: float,
        y: float,
        rows: int,
        columns: int,
        size: tuple[float, float],
        *,
        color: str,
        label: Callable[[int, int], str],
    ) -> None:
        """Draw a grid, such as a matrix, from its top left corner; ``label`` gives the words of each cell."""
        wide, high = size
        for row in range(rows):
            for column in range(columns):
                self.box(x + column * wide, y + row * high, wide, high, label(row, column), color=color)

    def line(self, *points: Point, color: str | None = None, arrow: bool = False, width: float = 1.5) -> None:
        """Draw a line through two or more points, with an arrow's head at the last if ``arrow``.

        Raises:
            ValueError: if there are fewer than two points.
        """
        if len(points) < 2:
            raise ValueError(f"points must be at least two, not {len(points)}")
        end, before = points[-1], points[-2]
        drawn = list(points)
        if arrow:
            distance = math.dist(before, end) or 1.0
            across = ((end[0] - before[0]) / distance, (end[1] - before[1]) / distance)
            neck = (end[0] - across[0] * _ARROW, end[1] - across[1] * _ARROW)
            drawn[-1] = neck
            half = (-across[1] * _ARROW / 2, across[0] * _ARROW / 2)
            head = [end, (neck[0] + half[0], neck[1] + half[1]), (neck[0] - half[0], neck[1] - half[1])]
            self._add("polygon", points=_joined(head), fill=_paint(color))
        self._add("polyline", points=_joined(drawn), fill="none", stroke=_paint(color), stroke_width=width)

    def circle(self, x: float, y: float, radius: float, *, color: str) -> None:
        """Draw a circle around (x, y)."""
        self._add("circle", cx=x, cy=y, r=radius, fill=color_of(color), **_TINTED, stroke=color_of(color))

    def svg(self, *, key: str, alt: str) -> str:
        """Return the drawing as an ``<svg>`` element as wide as its place; ``key`` goes before its ids."""
        root = ET.Element(f"{{{_SVG}}}svg", {"viewBox": f"0 0 {_number(WIDTH)} {_number(self.height)}", "role": "img"})
        root.set("aria-labelledby", f"figure-{key}-alt")
        description = ET.SubElement(root, f"{{{_SVG}}}desc", {"id": f"figure-{key}-alt"})
        description.text = checked_text(alt, "alt", key)
        root.extend(self._elements)
        ET.register_namespace("", _SVG)
        return ET.tostring(root, encoding="unicode")


def _joined(points: Sequence[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
