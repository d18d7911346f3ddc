"""The drawing of the page on the capstone: the whole method, with what each of its steps decides."""

from __future__ import annotations

from typing import Final

from tinytorch.report import Page
from tinytorch.report.drawings import Drawing

#: The steps of the method in their order, what each asks, and its colour.
STEPS: Final = (
    ("profile", "where does\nthe time go?", "numpy"),
    ("find the bound", "bytes, arithmetic\nor calls?", "numpy"),
    ("predict", "Amdahl, for\nevery step", "cached"),
    ("measure", "all steps,\nin turns", "measured"),
    ("judge", "faster, and\nstill right?", "measured"),
    ("report", "also what\nfailed", "compiled"),
)


def show_method(page: Page) -> None:
    """Show the steps of the method, the way back, and the way out."""
    page.drawing(
        "method",
        method(),
        caption="The method. A step that passes is taken, and the next turn begins with a new profile, because every "
        "step changes what is slow.",
        alt="Six boxes. The upper row, from left to right: profile, find the bound, predict. An arrow leads down to "
        "the lower row, from right to left: measure, judge, report. From judge an arrow leads back up to profile where "
        "a step passes; where nothing passes the way goes on to report.",
    )


def method() -> Drawing:
    """Return the method: the upper row from left to right, and the lower one back."""
    drawing, wide, high = Drawing(286), 130.0, 40.0
    places = [(10.0, 10.0), (175.0, 10.0), (340.0, 10.0), (340.0, 168.0), (175.0, 168.0), (10.0, 168.0)]
    for (name, asked, color), (x, y) in zip(STEPS, places, strict=True):
        drawing.box(x, y, wide, high, name, color=color)
        drawing.text(x + wide / 2, y + high + 18, asked)
    for (x, y), (end, _) in (places[:2], places[1:3]):
        drawing.line((x + wide, y + high / 2), (end, y + high / 2), arrow=True)
    for (x, y), (end, _) in (places[3:5], places[4:]):
        drawing.line((x, y + high / 2), (end + wide, y + high / 2), arrow=True)
    drawing.line((405, 92), (405, 168), arrow=True)
    drawing.line((240, 168), (240, 130), (75, 130), (75, 92), arrow=True)
    drawing.text(166, 122, "a step passes: take it")
    drawing.text(240, 264, "nothing passes: pairs, then report")
    return drawing
