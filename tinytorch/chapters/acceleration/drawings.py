"""Drawings of one product: the orders of its loops, lanes of a vector, a tile in registers, and packing."""

from __future__ import annotations

from collections.abc import Callable

from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, VECTORS
from tinytorch.report import Page
from tinytorch.report.drawings import Drawing

#: Which colour each matrix has in all drawings.
_A, _B, _OUT = "numpy", "compiled", "cached"


def _only(color: str, chosen: Callable[[int, int], bool]) -> Callable[[int, int], str | None]:
    return lambda row, column: color if chosen(row, column) else None


def orders() -> Drawing:
    """Return what the inner loop visits in the order i, j, k, and in the order i, k, j."""
    drawing = Drawing(262)
    size, count = 16, 6
    wide = size * count
    for top, name, a, b, out in (
        (26, "i j k", (0, count), (count, 0), (0, 0)),
        (156, "i k j", (0, 0), (0, count), (0, count)),
    ):
        drawing.text(4, top + wide / 2 + 5, name, anchor="start", bold=True)
        for left, letter, color, (down, across) in ((88, "A", _A, a), (228, "B", _B, b), (368, "C", _OUT, out)):
            drawing.text(left + wide / 2, top - 8, letter, bold=True)
            row, column = (2, 3) if letter == "C" else (2, 1) if letter == "A" else (1, 3)
            chosen = _only(
                color,
                lambda r, c, row=row, column=column, down=down, across=across: (  # type: ignore[misc]
                    (r == row or down > 0) and (c == column or across > 0)
                ),
            )
            drawing.cells(left, top, count, count, size, color=chosen)
            if down:
                x = left + (column + 0.5) * size
                drawing.line((x, top + 4), (x, top + wide - 2), arrow=True)
            elif across:
                y = top + (row + 0.5) * size
                drawing.line((left + 4, y), (left + wide - 2, y), arrow=True)
        drawing.text(206, top + wide / 2 + 5, "×")
        drawing.text(346, top + wide / 2 + 5, "=")
    return drawing


def show_orders(page: Page) -> None:
    """Show `orders`."""
    page.drawing(
        "orders",
        orders(),
        caption="What the inner loop visits. In the order i, j, k it runs down a column of B for one number of C, the "
        "sum. In the order i, k, j one number of A stays, and a row of B goes into a row of C.",
        alt="Two rows of three grids A, B and C. Above, a row of A and a column of B lead to one cell of C; below, one "
        "cell of A and a row of B lead to a row of C.",
    )


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
    middle = top + rows * high / 2
    drawing.brace((left + vectors * wide + 6, top), (left + vectors * wide + 6, top + rows * high), "sums\nstay")
    drawing.line((76, middle), (92, middle), arrow=True)
    drawing.line((left + vectors * wide / 2, 52), (left + vectors * wide / 2, 64), arrow=True)
    drawing.text(4, top + rows * high + 22, f"column k of A: {rows} loads", anchor="start")
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


def packing() -> Drawing:
    """Return how columns of B become a panel, and in which memory each operand of a tile lies."""
    drawing = Drawing(196)
    size = 15
    drawing.text(68, 18, "B, as it lies", bold=True)
    drawing.cells(8, 28, 8, 8, size, color=lambda _row, column: _B if column in (2, 3) else None)
    drawing.text(68, 168, "rows far apart")
    drawing.line((136, 88), (196, 88), arrow=True, width=2)
    drawing.text(166, 78, "copy")
    drawing.text(232, 18, "panel", bold=True)
    drawing.cells(217, 28, 8, 2, size, color=_B)
    drawing.text(232, 168, "row after row")
    drawing.line((256, 88), (312, 88), arrow=True, width=2)
    drawing.box(318, 28, 154, 36, "tile: registers", color=_OUT)
    drawing.box(318, 74, 154, 36, "panel: near cache", color=_B)
    drawing.box(318, 120, 154, 36, "rows of A: pass by", color=_A)
    drawing.text(395, 186, "from near to far")
    return drawing


def show_packing(page: Page) -> None:
    """Show `packing`."""
    page.drawing(
        "packing",
        packing(),
        caption="Packing. The columns of B that a tile needs are copied next to each other once, and all tiles of "
        "these columns read the copy, which stays near while the rows of A pass by.",
        alt="A strip of columns of the matrix B, whose rows lie far apart, is copied to a panel whose rows follow each "
        "other; beside it three boxes: the tile in registers, the panel in a near cache, and rows of A that pass by.",
    )


def blocks() -> Drawing:
    """Return the parts of A and B that are copied together, and in which memory each part of a product lies."""
    drawing = Drawing(196)
    size, top = 15, 38
    for left, letter in ((8, "A"), (118, "B")):
        drawing.text(left + 3 * size, top - 10, letter, bold=True)
    drawing.cells(8, top, 6, 6, size, color=_only(_A, lambda _row, column: column in (2, 3)))
    drawing.cells(118, top, 6, 6, size, color=_only(_B, lambda row, _column: row in (2, 3)))
    drawing.brace((8 + 2 * size, top + 6 * size + 4), (8 + 4 * size, top + 6 * size + 4), "d columns")
    drawing.brace((118 + 6 * size + 4, top + 2 * size), (118 + 6 * size + 4, top + 4 * size), "d rows")
    drawing.line((280, 83), (312, 83), arrow=True, width=2)
    drawing.text(296, 72, "copy")
    for index, (text, color) in enumerate(
        (
            ("tile: registers", _OUT),
            ("panel: near cache", _B),
            ("strips of A: near", _A),
            ("block of B: farther", _B),
        )
    ):
        drawing.box(318, 8 + 40 * index, 158, 34, text, color=color)
    drawing.text(397, 186, "from near to far")
    return drawing


def show_blocks(page: Page) -> None:
    """Show `blocks`."""
    page.drawing(
        "blocks",
        blocks(),
        caption="A block. As many rows of B as columns of A are copied at a time, into panels and strips; a panel "
        "and all strips stay near while their tiles are computed, and the next block adds to the same sums.",
        alt="The matrix A with some of its columns marked, the matrix B with as many of its rows; beside them four "
        "boxes: the tile in registers, a panel and the strips of A in a near cache, and the block of B farther away.",
    )


def cache_tiles() -> Drawing:
    """Return the order in which loops in cache tiles visit the parts of B."""
    drawing = Drawing(196)
    high, wide = 38, 52
    drawing.text(64, 18, "A", bold=True)
    drawing.cells(8, 28, 8, 4, (28, 19), color=lambda _row, column: _A if column == 1 else None)
    drawing.line((50, 34), (50, 174), arrow=True)
    drawing.text(148, 108, "×")
    drawing.text(276, 18, "B", bold=True)
    drawing.cells(172, 28, 4, 4, (wide, high), color=lambda row, column: _B if (row, column) == (1, 0) else None)
    drawing.text(198, 90, "stays")
    drawing.text(392, 84, "1: all rows\nof A, then\n2: the next\npart of B", anchor="start")
    return drawing


def show_cache_tiles(page: Page) -> None:
    """Show `cache_tiles`."""
    page.drawing(
        "cache-tiles",
        cache_tiles(),
        caption="A cache tile. One part of B stays in a near cache while all rows of A go by; then comes the next, "
        "so that B travels from far away once, and not once for each row.",
        alt="The matrix A with one strip of columns, passed from top to bottom, and the matrix B cut into parts, of "
        "which one is marked as staying.",
    )
