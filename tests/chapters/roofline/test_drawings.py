"""Drawings of the page on rooflines: they are drawn to the scale of what they show, whatever the machine."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree as ET

import pytest

from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings
from tinytorch.chapters.roofline import drawings
from tinytorch.report import Drawing, Page, color
from tinytorch.report.drawings import text_width

SVG = "{http://www.w3.org/2000/svg}"
MANY = [("L1", 1e12), ("L2", 5e11), ("L3", 2e11), ("memory", 2e10)]


def elements(drawing: Drawing, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(drawing.svg(key="key", alt="alt")).iter(f"{SVG}{tag}"))


def points(element: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in element.attrib["points"].split())]


def solid(drawing: Drawing, variant: str) -> list[list[tuple[float, float]]]:
    """Return the points of each line in the colour of ``variant`` that is not dashed."""
    lines = [one for one in elements(drawing, "polyline") if one.get("stroke") == color(variant)]
    return [points(one) for one in lines if one.get("stroke-dasharray") is None]


@pytest.mark.parametrize("levels", [MANY, MANY[:1], [(name, bandwidth) for name, _, bandwidth in LEVELS]])
def test_each_slope_meets_the_flat_roof_at_its_ridge(levels: list[tuple[str, float]]) -> None:
    drawn = drawings.roof(PEAK, levels)
    (flat,) = solid(drawn, drawings.ARITHMETIC)
    slopes = solid(drawn, drawings.BYTES)
    assert len(slopes) == len(levels)
    assert {end[1] for _, end in slopes} == {flat[0][1]}
    steepness = {round((y0 - y1) / (x1 - x0), 2) for (x0, y0), (x1, y1) in slopes}
    assert len(steepness) == 1, "slopes on logarithmic axes are parallel"
    corners = [end[0] for _, end in slopes]
    assert corners == sorted(corners)
    if len(levels) > 2:
        apart = [math.log(one[1] / other[1]) for one, other in itertools.pairwise(levels)]
        drawn_apart = [b - a for a, b in itertools.pairwise(corners)]
        assert drawn_apart[0] / drawn_apart[1] == pytest.approx(apart[0] / apart[1], rel=0.01)


@pytest.mark.parametrize(
    "levels", [MANY, [("L1", 42e10), ("L2", 14e10), ("L3", 3e10), ("memory", 1.54e10)], [(n, 1e9) for n, _ in MANY]]
)
def test_the_names_of_levels_lie_apart_below_their_ridges(levels: list[tuple[str, float]]) -> None:
    names = [one for one in elements(drawings.roof(PEAK, levels), "text") if one.text in {name for name, _ in levels}]
    assert [one.text for one in names] == [name for name, _ in levels]
    places = [(float(one.attrib["x"]), text_width(one.text or "") / 2) for one in names]
    for (at, half), (beyond, other) in itertools.pairwise(places):
        assert at + half + 5 <= beyond - other


def test_a_name_that_touches_no_other_stands_below_its_ridge_point() -> None:
    drawn = drawings.roof(PEAK, [("L1", 1e12), ("L2", 1e11), ("memory", 1e10)])
    corners = [end[0] for _, end in solid(drawn, drawings.BYTES)]
    names = [one for one in elements(drawn, "text") if one.text in {"L1", "L2", "memory"}]
    assert [float(one.attrib["x"]) for one in names] == pytest.approx(corners, abs=0.02)


def test_the_farther_a_level_the_wider_its_box_and_the_thinner_its_arrow() -> None:
    drawn = drawings.hierarchy([(name, "holds so much", "so fast", bandwidth) for name, bandwidth in MANY])
    boxes = [float(box.attrib["width"]) for box in elements(drawn, "rect")][1:]
    arrows = [float(one.attrib["stroke-width"]) for one in elements(drawn, "polyline")]
    assert boxes == sorted(boxes)
    assert arrows == sorted(arrows, reverse=True)
    assert arrows[0] / arrows[1] == pytest.approx(2, rel=0.01)


def test_a_machine_with_one_level_has_a_hierarchy() -> None:
    assert len(elements(drawings.hierarchy([("memory", "all the rest", "so fast", 1e9)]), "rect")) == 2


def test_every_drawing_has_a_place_on_the_page() -> None:
    page = Page("roofline")
    machine = made_ceilings(threads=1)
    drawings.show_hierarchy(page, machine)
    drawings.show_roof(page, machine)
    assert [one.key for one in page.records[-2:]] == ["hierarchy", "roof"]
