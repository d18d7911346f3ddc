"""Drawings of the page on rooflines: they are drawn to the scale of what they show, whatever the machine."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree as ET

import pytest

from tests.perf.made_ceilings import LEVELS, made_ceilings
from tinytorch.chapters.roofline import drawings
from tinytorch.report.colors import color
from tinytorch.report.drawings import Drawing, text_width

SVG = "{http://www.w3.org/2000/svg}"
Levels = list[tuple[str, int | None, float]]
MANY: Levels = [("L1", 2**15, 1e12), ("L2", 2**20, 5e11), ("L3", None, 2e11), ("memory", None, 2e10)]


def drawn(levels: Levels) -> Drawing:
    made = made_ceilings(threads=1, levels=levels)
    return drawings.roof(made, xlabel="intensity", ylabel="rate", peak="peak", left="bytes", right="arithmetic")


def elements(drawing: Drawing, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(drawing.svg(key="key", alt="alt")).iter(f"{SVG}{tag}"))


def points(element: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in element.attrib["points"].split())]


def solid(drawing: Drawing, variant: str) -> list[list[tuple[float, float]]]:
    """Return the points of each line in the colour of ``variant`` that is not dashed."""
    lines = [one for one in elements(drawing, "polyline") if one.get("stroke") == color(variant)]
    return [points(one) for one in lines if one.get("stroke-dasharray") is None]


@pytest.mark.parametrize("levels", [MANY, MANY[:1], list(LEVELS)])
def test_each_slope_meets_the_flat_roof_at_its_ridge(levels: Levels) -> None:
    (flat,) = solid(drawn(levels), drawings.ARITHMETIC)
    slopes = solid(drawn(levels), drawings.BYTES)
    assert len(slopes) == len(levels)
    assert {end[1] for _, end in slopes} == {flat[0][1]}
    steepness = {round((y0 - y1) / (x1 - x0), 2) for (x0, y0), (x1, y1) in slopes}
    assert len(steepness) == 1, "slopes on logarithmic axes are parallel"
    corners = [end[0] for _, end in slopes]
    assert corners == sorted(corners)
    if len(levels) > 2:
        apart = [math.log(one[2] / other[2]) for one, other in itertools.pairwise(levels)]
        drawn_apart = [b - a for a, b in itertools.pairwise(corners)]
        assert drawn_apart[0] / drawn_apart[1] == pytest.approx(apart[0] / apart[1], rel=0.01)


@pytest.mark.parametrize("levels", [MANY, [(name, None, 1e9) for name, _, _ in MANY]])
def test_the_names_of_levels_lie_apart_below_their_ridges(levels: Levels) -> None:
    called = [name for name, _, _ in levels]
    names = [one for one in elements(drawn(levels), "text") if one.text in called]
    assert [one.text for one in names] == called
    places = [(float(one.attrib["x"]), text_width(one.text or "") / 2) for one in names]
    for (at, half), (beyond, other) in itertools.pairwise(places):
        assert at + half + 5 <= beyond - other


def test_a_name_that_touches_no_other_stands_below_its_ridge_point() -> None:
    made = drawn([("L1", None, 1e12), ("L2", None, 1e11), ("memory", None, 1e10)])
    corners = [end[0] for _, end in solid(made, drawings.BYTES)]
    names = [one for one in elements(made, "text") if one.text in {"L1", "L2", "memory"}]
    assert [float(one.attrib["x"]) for one in names] == pytest.approx(corners, abs=0.02)


def hierarchy(levels: Levels) -> Drawing:
    made = made_ceilings(threads=1, levels=levels)
    return drawings.hierarchy(made, core="core", reported="reported", unreported="not reported", rest="the rest")


def test_the_farther_a_level_the_wider_its_box_and_the_thinner_its_arrow() -> None:
    made = hierarchy(MANY)
    boxes = [float(box.attrib["width"]) for box in elements(made, "rect")][1:]
    arrows = [float(one.attrib["stroke-width"]) for one in elements(made, "polyline")]
    assert boxes == sorted(boxes)
    assert arrows == sorted(arrows, reverse=True)
    assert arrows[0] / arrows[1] == pytest.approx(2, rel=0.01)
    held = [one.text.replace("\u00a0", " ") for one in elements(made, "text") if one.text and ":" in one.text]
    assert held == ["L1: 32.00 KiB reported", "L2: 1.000 MiB reported", "L3: not reported", "memory: the rest"]


def test_a_machine_with_one_level_has_a_hierarchy() -> None:
    assert len(elements(hierarchy(MANY[-1:]), "rect")) == 2
