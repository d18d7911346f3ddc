"""Drawing of how a file is read."""

from __future__ import annotations

from tinytorch.report import Page
from tinytorch.report.drawings import Drawing


def reading() -> Drawing:
    """Return the nodes of a file on the left, and where each kind goes on the right."""
    drawing = Drawing(248)
    drawing.text(80, 18, "nodes of the file", bold=True)
    drawing.text(372, 18, "what becomes of them", bold=True)
    rows = (
        ("Constant", "numbers, kept once", "baseline"),
        ("Shape, Slice, Concat", "known with the shape", "cached"),
        ("Conv, Gemm", "layers, with weights", "numpy"),
        ("Add, Clip, Mul, Div", "operations, one each", "numpy"),
        ("not known here", "named, all at once", "compiled"),
    )
    for at, (kind, becomes, hue) in enumerate(rows):
        top = 30.0 + 43 * at
        drawing.box(4, top, 176, 32, kind, color="baseline" if at < 4 else "compiled", dashed=at == 4)
        drawing.line((184, top + 16), (250, top + 16), arrow=True)
        drawing.box(254, top, 222, 32, becomes, color=hue, dashed=at == 4)
    return drawing


def show_reading(page: Page) -> None:
    """Show `reading`."""
    page.drawing(
        "reading",
        reading(),
        caption="How a file is read. Constants are kept as they are, what depends on shapes alone is worked out once "
        "for each shape, and the rest becomes layers and operations. If nodes cannot be read, there is no model, "
        "but a list of all of them.",
        alt="Five boxes of nodes on the left, each with an arrow to what becomes of it on the right: numbers, what is "
        "known with the shape, layers, operations, and a list of names.",
    )
