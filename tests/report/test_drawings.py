"""Drawings: what is drawn is in the SVG, words fit, and a page keeps them among its figures."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.report import Page
from tinytorch.report.colors import color
from tinytorch.report.drawings import WIDTH, Drawing, text_width

SVG = "{http://www.w3.org/2000/svg}"


def drawn(drawing: Drawing) -> ET.Element:
    return ET.fromstring(drawing.svg(key="tile", alt="a tile of four cells"))


def test_it_says_what_it_shows_and_takes_the_width_of_its_place() -> None:
    root = drawn(Drawing(100))
    assert root.get("viewBox") == "0 0 480 100"
    assert root.get("width") is None
    described = root.find(f"{SVG}desc")
    assert described is not None
    assert described.text == "a tile of four cells"
    assert root.get("aria-labelledby") == described.get("id")


def test_a_grid_has_a_box_a_cell_with_its_colour_and_words() -> None:
    drawing = Drawing(100)
    drawing.cells(0, 0, 2, 3, (30, 20), color="numpy", label=lambda row, column: str(3 * row + column))
    root = drawn(drawing)
    boxes = list(root.iter(f"{SVG}rect"))
    assert [(box.get("x"), box.get("y")) for box in boxes] == [(x, y) for y in ("0", "20") for x in ("0", "30", "60")]
    assert {box.get("fill") for box in boxes} == {color("numpy")}
    assert [text.text for text in root.iter(f"{SVG}text")] == list("012345")


def test_an_arrow_points_at_its_end() -> None:
    drawing = Drawing(100)
    drawing.line((10, 50), (100, 50), arrow=True)
    head = drawn(drawing).find(f"{SVG}polygon")
    assert head is not None
    assert (head.get("points") or "").split()[0] == "100,50"


@given(
    st.floats(-50, WIDTH + 50),
    st.text("abcdefgh ", min_size=1, max_size=60),
    st.sampled_from(["start", "middle", "end"]),
)
def test_words_lie_within_the_drawing_or_are_refused(x: float, words: str, anchor: str) -> None:
    width = text_width(words)
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    drawing = Drawing(40)
    if left >= 0 and left + width <= WIDTH:
        drawing.text(x, 20, words, anchor=anchor)  # type: ignore[arg-type]
    else:
        with pytest.raises(ValueError, match="within"):
            drawing.text(x, 20, words, anchor=anchor)  # type: ignore[arg-type]


def test_words_that_do_not_fit_their_box_are_refused() -> None:
    with pytest.raises(ValueError, match="must fit its box"):
        Drawing(100).box(0, 0, 40, 30, "much too long")
    with pytest.raises(ValueError, match="must fit its box"):
        Drawing(100).box(0, 0, 100, 30, "two\nlines")
    with pytest.raises(ValueError, match="must be a hue"):
        Drawing(100).box(0, 0, 40, 30, color="mauve")


def test_a_page_keeps_it_among_its_figures() -> None:
    page = Page("profiling")
    shown = page.drawing("tile", Drawing(50), caption="A tile.", alt="a tile of four cells")
    assert shown.record["kind"] == "figure"
    assert shown.record | {"caption": "A tile.", "alt": "a tile of four cells", "series": []} == shown.record
    assert 'id="figure-tile"' in shown.html
    with pytest.raises(ValueError, match="neither"):
        page.drawing("other", Drawing(50), caption="A tile.", alt="A tile.")
