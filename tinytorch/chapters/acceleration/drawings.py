"""Drawings of what this CPU computes at once: lanes of a vector, and a tile in registers."""

from __future__ import annotations

from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS
from tinytorch.report.drawings import Drawing

#: Which colour each matrix has in all drawings.
_A, _B, _OUT = "numpy", "compiled", "cached"


def lanes(count: int = LANES) -> Drawing:
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


def tile(rows: int = ROWS, vectors: int = VECTORS) -> Drawing:
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
