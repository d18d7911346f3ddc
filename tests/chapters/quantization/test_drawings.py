"""Drawings of the page on quantization: what they show is what the package computes."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from tinytorch.chapters.quantization import drawings
from tinytorch.report import Drawing, Page

SVG = "{http://www.w3.org/2000/svg}"


def words(drawing: Drawing) -> list[str]:
    return [str(text.text) for text in ET.fromstring(drawing.svg(key="d", alt="a drawing")).iter(f"{SVG}text")]


def test_a_ruler_has_all_its_codes_and_zero_on_one_of_them() -> None:
    drawing = drawings.ruler_drawing(-1, 1.6, 0.5)
    said = words(drawing)
    # Sixteen steps of 2.6 / 15: zero lies round(15 / 2.6) = 6 marks above the smallest code.
    assert [said[said.index("code") + at] for at in (1, 2, 3)] == ["\u22128", "\u22122", "7"]
    assert said.count("zero") == said.count("0.5") == 2
    lines = len(list(ET.fromstring(drawing.svg(key="d", alt="a drawing")).iter(f"{SVG}polyline")))
    assert lines == 2 * 2 + 16 + 15, "a line and an arrow each, and the marks"


def test_a_product_of_codes_is_worked_out() -> None:
    said = words(drawings.product_drawing((12, -98), (64, 3), 1e-4))
    assert {"768", "\u2212294", "474", "0.0474"} <= {*said}


def test_a_register_holds_four_times_as_many_codes() -> None:
    assert words(drawings.lanes_drawing(256))[::2] == ["8 float32", "32 codes of 8 bits"]


def test_fewer_share_the_step_of_an_outlier_the_finer_the_scales() -> None:
    said = words(drawings.sharing_drawing())
    assert [text for text in said if " of " in text] == ["64 of 64", "8 of 64", "4 of 64"]
    assert said.count("×") == 3, "one outlier in each grid"


@pytest.mark.parametrize(
    "show", [drawings.show_ruler, drawings.show_product, drawings.show_lanes, drawings.show_sharing]
)
def test_each_is_a_figure_of_the_page(show: Callable[[Page], None]) -> None:
    page = Page("quantization")
    show(page)
    assert page.records[-1].kind == "figure"
