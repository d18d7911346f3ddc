"""Drawings are smaller and look the same: the attributes are what the styles said, and no line moves."""

import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_book.site.drawings import DECIMALS, compact

mpl.use("agg")

DRAWING = (
    '<svg viewBox="0 0 345.6 201.6" style="stroke-linejoin: round; stroke-linecap: butt"><defs></defs><g><g>'
    '<path d="M 0 201.6  L 345.6 201.6  z " style="fill: none" /></g>'
    '<g clip-path="url(#p)"><path d="M 42.134146 168.098979  L 342.59976 168.098979 " '
    'style="fill: none; stroke: #2d96f0; stroke-width: 1.5" /></g>'
    '<g><text style="font-size: 9.5px; font-family: inherit; text-anchor: end; fill: currentColor">168.098979</text>'
    "</g></g></svg>"
)


def elements(drawing: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(drawing).iter() if element.tag != "g" or element.attrib]


def test_styles_become_attributes() -> None:
    root, line, text = (next(e for e in elements(compact(DRAWING)) if e.tag == tag) for tag in ("svg", "path", "text"))
    assert root.attrib == {"viewBox": "0 0 345.6 201.6", "stroke-linejoin": "round", "stroke-linecap": "butt"}
    assert line.attrib == {
        "d": "M 42.13 168.1 L 342.6 168.1",
        "fill": "none",
        "stroke": "#2d96f0",
        "stroke-width": "1.5",
    }
    assert text.attrib == {"font-size": "9.5", "text-anchor": "end", "fill": "currentColor"}


def test_text_stays_as_it_is() -> None:
    assert "168.098979</text>" in compact(DRAWING)


def test_groups_that_say_something_stay_and_others_go() -> None:
    groups = ET.fromstring(compact(DRAWING)).findall(".//g")
    assert [group.attrib for group in groups] == [{"clip-path": "url(#p)"}]


def test_what_nobody_sees_goes() -> None:
    assert len(re.findall("<path", compact(DRAWING))) == 1
    assert "<defs" not in compact(DRAWING)


@given(st.lists(st.floats(-1e4, 1e4, allow_nan=False), min_size=2, max_size=8))
def test_no_point_moves_by_more_than_the_last_decimal(points: list[float]) -> None:
    written = " ".join(f"{point:.6f}" for point in points)
    path = ET.fromstring(compact(f'<svg><path d="M {written}" stroke="red"/></svg>'))[0]
    shown = [float(word) for word in path.attrib["d"].split()[1:]]
    assert shown == pytest.approx(points, abs=0.5 * 10**-DECIMALS + 1e-6)


@given(st.integers(0, 4))
def test_making_it_smaller_twice_changes_nothing(depth: int) -> None:
    nested = DRAWING.replace("<g><text", "<g>" * depth + "<g><text").replace(
        "</text></g>", "</text></g>" + "</g>" * depth
    )
    once = compact(nested)
    ET.fromstring(once)
    assert compact(once) == once


def test_neighbours_that_look_alike_become_one_path_and_others_stay() -> None:
    bar = '<path d="M 0 0 L 1 0 z" fill="#111111" />'
    other, named = bar.replace("#111111", "#222222"), bar.replace("<path ", '<path id="one" ')
    drawn = elements(compact(f"<svg>{bar}{bar.replace('M 0 0', 'M 5 0')}{bar}{other}{named}{named}</svg>"))
    assert [one.get("d") for one in drawn if one.tag == "path"] == [
        "M 0 0 L 1 0 z M 5 0 L 1 0 z M 0 0 L 1 0 z",
        *["M 0 0 L 1 0 z"] * 3,
    ]


def test_a_rectangle_is_written_by_its_edges_and_another_path_as_it_was() -> None:
    bar, kite = "M 1 2 L 1 5 L 4 5 L 4 2 z", "M 1 2 L 1 5 L 4 6 L 4 2 z"
    drawn = elements(compact(f'<svg><path d="{bar}" fill="#111111" /><path d="{kite}" fill="#222222" /></svg>'))
    assert [one.get("d") for one in drawn if one.tag == "path"] == ["M1 2V5H4V2z", kite]
