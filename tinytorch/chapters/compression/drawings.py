"""Drawings of the page on compression: patterns of zeros, sparse rows, low rank, and a teacher with its student."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tinytorch.report import Drawing, Page

#: A matrix small enough to draw: outputs by inputs, as the page stores it.
SMALL = ((0, 5, 0, 0, 2, 0), (0, 0, 0, 7, 0, 0), (4, 0, 1, 0, 0, 3))


def patterns_drawing(side: int = 8) -> Drawing:
    """Return a weight half of which is zero in three patterns: scattered, two of four, and whole columns."""
    drawing = Drawing(236)
    size = 17.0
    scattered = np.random.default_rng(1).permuted(np.arange(side * side) % 2 == 0).reshape(side, side)
    draw = np.random.default_rng(2)
    fours = np.stack([np.concatenate([draw.permuted([True, True, False, False]) for _ in range(side // 4)])] * side)
    fours = draw.permuted(fours.reshape(side, side // 4, 4), axis=2).reshape(side, side)
    columns = np.zeros((side, side), bool)
    columns[:, [0, 2, 3, 6]] = True
    said = ("scattered", "two of four", "whole units")
    below = ("positions\nare stored", "two bits\nfor each place", "a smaller\nmatrix")
    for index, kept in enumerate((scattered, fours, columns)):
        left = 12 + index * 160.0
        drawing.text(left + size * side / 2, 18, said[index], bold=True)
        drawing.cells(left, 30, side, side, size, color=partial(_kept, kept))
        if index == 1:
            for row in range(side + 1):
                drawing.line((left, 30 + row * size), (left + side * size, 30 + row * size))
            for place in range(0, side + 1, 4):
                drawing.line((left + place * size, 30), (left + place * size, 30 + side * size), width=3)
        drawing.text(left + size * side / 2, 30 + side * size + 24, below[index])
    return drawing


def _kept(kept: npt.NDArray[np.bool_], row: int, column: int) -> str | None:
    return "pruned" if kept[row, column] else None


def csr_drawing(matrix: tuple[tuple[int, ...], ...] = SMALL) -> Drawing:
    """Return a small matrix and the three arrays that stand for it in compressed sparse rows."""
    drawing = Drawing(330)
    weights = np.array(matrix)
    outputs, inputs = np.nonzero(weights)
    values = weights[outputs, inputs]
    starts = np.searchsorted(outputs, np.arange(len(weights) + 1))
    colors = ("pruned", "compiled", "numpy")
    size, left = 32.0, 150.0

    def of_row(row: int, column: int) -> str | None:
        return colors[row] if weights[row, column] else None

    drawing.text(left, 18, "one row for each output", anchor="start", bold=True)
    drawing.cells(
        left,
        30,
        len(weights),
        weights.shape[1],
        size,
        color=of_row,
        label=lambda row, column: str(weights[row, column]),
    )

    def of_value(_row: int, at: int) -> str:
        return colors[outputs[at]]

    rows = ((162.0, "values", values, of_value), (212.0, "inputs", inputs, of_value), (282.0, "starts", starts, None))
    for top, name, numbers, color in rows:
        drawing.text(left - 14, top + 21, name, anchor="end")
        drawing.cells(left, top, 1, len(numbers), size, color=color, label=partial(_nth, numbers.tolist()))
    for at in range(len(values)):
        drawing.line((left + (at + 0.5) * size, 194), (left + (at + 0.5) * size, 212))
    for at, start in enumerate(starts[:-1]):
        drawing.line((left + (at + 0.5) * size, 282), (left + (start + 0.5) * size, 246), arrow=True)
    return drawing


def _nth(numbers: Sequence[int], _row: int, at: int) -> str:
    return str(numbers[at])


def low_rank_drawing() -> Drawing:
    """Return a weight beside two thin ones whose product stands for it, with their sizes."""
    drawing = Drawing(226)
    drawing.text(36, 120, "m", anchor="end")
    drawing.box(44, 40, 120, 150, "W", color="baseline")
    drawing.text(104, 30, "n")
    drawing.text(104, 214, "m n numbers")
    drawing.text(190, 120, "≈", bold=True)
    drawing.text(224, 120, "m", anchor="end")
    drawing.box(232, 40, 34, 150, "L", color="numpy")
    drawing.text(249, 30, "r")
    drawing.text(288, 63, "×")
    drawing.text(312, 64, "r", anchor="end")
    drawing.box(320, 40, 120, 34, "R", color="compiled")
    drawing.text(380, 30, "n")
    drawing.text(346, 214, "r (m + n) numbers")
    return drawing


def distillation_drawing(logits: tuple[float, ...] = (4.0, 2.0, 0.0), temperature: float = 3.0) -> Drawing:
    """Return the way from an image through teacher and student to the two losses, with the teacher's soft answer."""
    drawing = Drawing(316)
    drawing.box(8, 130, 84, 44, "image", color="baseline")
    drawing.box(130, 30, 130, 70, "teacher\n(trained)", color="distilled")
    drawing.box(130, 208, 130, 56, "student", color="compiled")
    drawing.line((92, 144), (130, 90), arrow=True)
    drawing.line((92, 160), (130, 218), arrow=True)
    for top, heat in ((20.0, 1.0), (72.0, temperature)):
        shares = np.exp(np.array(logits) / heat)
        shares /= shares.sum()
        drawing.text(310, top + 29, f"T = {heat:g}", anchor="start")
        drawing.line((366, top + 34), (464, top + 34))
        for at, share in enumerate(shares):
            drawing.box(372 + at * 30, top + 34 - 34 * share, 24, 34 * share, color="distilled")
    drawing.line((260, 65), (302, 65), arrow=True)
    drawing.box(318, 140, 146, 44, "soft loss × T²", color="reference")
    drawing.box(318, 214, 146, 44, "label loss", color="reference")
    drawing.line((414, 110), (414, 140), arrow=True)
    drawing.line((260, 226), (318, 166), arrow=True)
    drawing.line((260, 236), (318, 236), arrow=True)
    drawing.text(391, 300, "label: class 1")
    drawing.line((391, 284), (391, 258), arrow=True)
    return drawing


def show_patterns(page: Page) -> None:
    """Show three patterns of zeros."""
    page.drawing(
        "patterns",
        patterns_drawing(),
        caption="The same weight without half of its numbers, in three patterns; tinted numbers are left. What must be "
        "stored besides them differs.",
        alt="Three grids of cells, half of them tinted: scattered at random, two of each four neighbours in a row, and "
        "whole columns.",
    )


def show_csr(page: Page) -> None:
    """Show compressed sparse rows."""
    page.drawing(
        "csr-storage",
        csr_drawing(),
        caption="Compressed sparse rows: the values that are left, the input of each, and where each output's values "
        "start; the last start is their number.",
        alt="A matrix of three rows and six columns with six numbers that are not zero. Below it the array of these "
        "values, under each the column it came from, and an array of starts with an arrow to each row's first value.",
    )


def show_low_rank(page: Page) -> None:
    """Show a weight as a product of two thin ones."""
    page.drawing(
        "thin-product",
        low_rank_drawing(),
        caption="A weight of m inputs and n outputs, and a product of two thin ones that stands for it.",
        alt="A large rectangle W, m high and n wide, about equal to a tall one L, m high and r wide, times a flat one "
        "R, r high and n wide.",
    )


def show_distillation(page: Page) -> None:
    """Show what a student learns from."""
    page.drawing(
        "teacher-and-student",
        distillation_drawing(),
        caption="Distillation: the student is to match the teacher's softened answer and the label. A higher "
        "temperature T shows more of what the teacher thinks of the wrong classes.",
        alt="An image goes to a trained teacher and to a student. The teacher's answer is drawn as bars of three "
        "classes: at temperature one nearly all in the first, at three more evenly. A soft loss compares it with the "
        "student's answer, a second loss compares the student's answer with the label.",
    )
