"""Drawings of what this CPU computes at once: lanes of a vector, and a tile in registers."""

from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS
from tinytorch.report.drawings import Drawing

#: Which colour each matrix has in all drawings.
_A, _B, _OUT = "numpy", "compiled", "cached"


def lanes(count: int = LANES) -> Drawing:
    """Return one multiply-add of vectors of ``count`` numbers, of which the first and the last few are drawn."""
    drawing = Drawing(186)
    left, size = 130, (64, 32)
    shown = ("0", "1", "2", "…", str(count - 1))
    rows = (
        (14, "a, in all lanes", _A, ["a" if at != "…" else at for at in shown]),
        (68, "a row of B", _B, [f"b{at}" if at != "…" else at for at in shown]),
        (136, "a row of C", _OUT, [f"c{at}" if at != "…" else at for at in shown]),
    )
    for top, name, color, labels in rows:
        drawing.text(4, top + 21, name, anchor="start")
        drawing.cells(left, top, 1, 5, size, color=color, label=lambda _, at, labels=labels: labels[at])  # type: ignore[misc]
    for at in (0, 1, 2, 4):
        x = left + (at + 0.5) * size[0]
        drawing.text(x, 61, "×")
        drawing.line((x, 102), (x, 134), arrow=True)
        drawing.text(x + 12, 121, "+")
    return drawing


def tile(rows: int = ROWS, vectors: int = VECTORS) -> Drawing:
    """Return a step of a tile: a row of B above, a column of A on the left, and the sums between them."""
    high, wide, top, left = 24, 96, 66, 96
    middle, bottom, across = top + rows * high / 2, top + rows * high, left + vectors * wide / 2
    beside, size = left + vectors * wide + 6, (wide, high)
    drawing = Drawing(bottom + 34)
    drawing.text(across, 16, f"row k of B: {vectors} loads")
    drawing.cells(left, 26, 1, vectors, size, color=_B, label=lambda _, at: f"b{at}")
    drawing.cells(40, top, rows, 1, (34, high), color=_A, label=lambda at, _: f"a{at}")
    drawing.cells(left, top, rows, vectors, size, color=_OUT, label=lambda row, column: f"+ a{row} · b{column}")
    drawing.line((beside, top), (beside + 7, top), (beside + 7, bottom), (beside, bottom))
    drawing.text(beside + 13, middle - 3.75, "sums\nstay", anchor="start")
    drawing.line((76, middle), (92, middle), arrow=True)
    drawing.line((across, 52), (across, 64), arrow=True)
    drawing.text(4, bottom + 22, f"column k of A: {rows} loads", anchor="start")
    return drawing
