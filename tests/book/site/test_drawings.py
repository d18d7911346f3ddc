"""Drawings are smaller and look the same: the attributes are what the styles said, and no line moves."""

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
    stroke = {"fill": "none", "stroke": "#2d96f0", "stroke-width": "1.5"}
    assert line.attrib == {"d": "M 42.13 168.1 L 342.6 168.1", **stroke}
    assert text.attrib == {"font-size": "9.5", "text-anchor": "end", "fill": "currentColor"}
    assert text.text == "168.098979"


def test_groups_that_say_something_stay_and_what_nobody_sees_goes() -> None:
    small = ET.fromstring(compact(DRAWING))
    assert [group.attrib for group in small.findall(".//g")] == [{"clip-path": "url(#p)"}]
    assert [len(small.findall(f".//{name}")) for name in ("path", "defs")] == [1, 0]


@given(st.lists(st.floats(-1e4, 1e4, allow_nan=False), min_size=2, max_size=8))
def test_no_point_moves_by_more_than_the_last_decimal(points: list[float]) -> None:
    written = " ".join(f"{point:.6f}" for point in points)
    path = ET.fromstring(compact(f'<svg><path d="M {written}" stroke="red"/></svg>'))[0]
    shown = [float(word) for word in path.attrib["d"].split()[1:]]
    assert shown == pytest.approx(points, abs=0.5 * 10**-DECIMALS + 1e-6)


@given(st.integers(0, 4))
def test_making_it_smaller_twice_changes_nothing(depth: int) -> None:
    nested = DRAWING.replace("<text", "<g>" * depth + "<text").replace("</text>", "</text>" + "</g>" * depth)
    once = compact(nested)
    ET.fromstring(once)
    assert compact(once) == once


BAR, KITE = '<path d="M 0 0 L 1 0 z" fill="#111111" />', "M 1 2 L 1 5 L 4 6 L 4 2 z"
OTHERS = [BAR.replace("#111111", "#222222"), *[BAR.replace("<path ", '<path id="one" ')] * 2]


@pytest.mark.parametrize(
    ("paths", "drawn"),
    [
        ([BAR, BAR.replace("M 0", "M 5"), BAR], ["M 0 0 L 1 0 z M 5 0 L 1 0 z M 0 0 L 1 0 z"]),
        (OTHERS, ["M 0 0 L 1 0 z"] * 3),
        (['<path d="M 1 2 L 1 5 L 4 5 L 4 2 z" fill="#111111" />'], ["M1 2V5H4V2z"]),
        ([f'<path d="{KITE}" fill="#222222" />'], [KITE]),
    ],
    ids=["neighbours that look alike are one path", "others stay", "a rectangle is its edges", "another path stays"],
)
def test_paths_are_short(paths: list[str], drawn: list[str]) -> None:
    found = elements(compact(f"<svg>{''.join(paths)}</svg>"))
    assert [one.get("d") for one in found if one.tag == "path"] == drawn
