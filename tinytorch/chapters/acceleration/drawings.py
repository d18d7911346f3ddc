"""Drawings of what this CPU computes at once: lanes of a vector, and a tile in registers."""

from __future__ import annotations

from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS
from tinytorch.report import Page
from tinytorch.report.drawings import Drawing

#: Which colour each matrix has in all drawings.
_A, _B, _OUT = "numpy", "compiled", "cached"


def lanes(count: int) -> Drawing:
    """Return one multiply-add of vectors of ``count`` numbers, of which the first and the last few are drawn."""
    drawing = Drawing(186)
    shown = ("0", "1", "2", "…", str(count - 1))
    left, wide, high = 130, 64, 32
    for top, name, color, letter in ((14, "a, in all lanes", _A, "a"), (68, "a row of B", _B, "b")):
        drawing.text(4, top + 21, name, anchor="start")
        drawing.cells(
            left,
            top,
            1,
            5,
            (wide, high),
            color=color,
            label=lambda _row, at, letter=letter: (  # type: ignore[misc]
                "…" if shown[at] == "…" else letter if letter == "a" else f"{letter}{shown[at]}"
            ),
        )
    for at in range(5):
        if shown[at] != "…":
            x = left + (at + 0.5) * wide
            drawing.text(x, 61, "×")
            drawing.line((x, 102), (x, 134), arrow=True)
            drawing.text(x + 12, 121, "+")
    drawing.text(4, 157, "a row of C", anchor="start")
    drawing.cells(
        left,
        136,
        1,
        5,
        (wide, high),
        color=_OUT,
        label=lambda _row, at: "…" if shown[at] == "…" else f"c{shown[at]}",
    )
    return drawing


def show_lanes(page: Page) -> None:
    """Show `lanes` of this CPU."""
    page.drawing(
        "lanes",
        lanes(LANES),
        caption="One instruction multiplies one number of A by a vector of B and adds the products to a vector of C. "
        "Each number has a lane of its own, and no lane waits for another.",
        alt="Three rows of cells: the same number a in every lane, different numbers of B below it, and arrows that "
        "add their products, lane by lane, to numbers of C.",
    )


def tile(rows: int, vectors: int) -> Drawing:
    """Return a step of a tile: a row of B above, a column of A on the left, and the sums between them."""
    high, wide = 24, 96
    top, left = 66, 96
    drawing = Drawing(top + rows * high + 34)
    drawing.text(left + vectors * wide / 2, 16, f"row k of B: {vectors} loads")
    drawing.cells(left, 26, 1, vectors, (wide, high), color=_B, label=lambda _row, at: f"b{at}")
    drawing.cells(40, top, rows, 1, (34, high), color=_A, label=lambda at, _column: f"a{at}")
    drawing.cells(
        left,
        top,
        rows,
        vectors,
        (wide, high),
        color=_OUT,
        label=lambda row, column: f"+ a{row} · b{column}",
    )
    middle, bottom = top + rows * high / 2, top + rows * high
    beside = left + vectors * wide + 6
    drawing.line((beside, top), (beside + 7, top), (beside + 7, bottom), (beside, bottom))
    drawing.text(beside + 13, middle - 3.75, "sums\nstay", anchor="start")
    drawing.line((76, middle), (92, middle), arrow=True)
    drawing.line((left + vectors * wide / 2, 52), (left + vectors * wide / 2, 64), arrow=True)
    drawing.text(4, bottom + 22, f"column k of A: {rows} loads", anchor="start")
    return drawing


def show_tile(page: Page) -> None:
    """Show `tile` of this CPU."""
    page.drawing(
        "tile",
        tile(ROWS, VECTORS),
        caption="One step of the register tile. Each number of A meets each vector of B, and every product is added to "
        "a sum that has a register of its own. Nothing is stored before the last step.",
        alt=f"A grid of {ROWS} rows and {VECTORS} columns of sums; above it a row of vectors of B, on its left a "
        "column of numbers of A. Each cell adds the product of its row's number and its column's vector.",
    )
