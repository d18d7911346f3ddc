"""Drawings of the page on the machine: how a number reaches a page, turns and blocks, and what an interval promises."""

from __future__ import annotations

import numpy as np

from tinytorch.perf.measuring import Measurement
from tinytorch.report import Drawing, Page

#: Repeats in the drawing of intervals, and samples in each.
_REPEATS, _SAMPLES = 20, 15


def walk_of_a_number() -> Drawing:
    """Return the way of a number from a call that runs to the page that shows it."""
    drawing = Drawing(292)
    steps = (
        ("a call runs, many times", "samples", "forward"),
        ("the timer adds how it was taken", "median, interval", "forward"),
        ("the judge asks what they prove", "word, or what is known", "waiting"),
        ("the chapter records it", "value, unit, n, machine", "update"),
        ("the page shows it", "press it: all of this", "backward"),
    )
    for index, (step, gives, color) in enumerate(steps):
        y = 8.0 + 56 * index
        drawing.box(10, y, 262, 38, step, color=color)
        drawing.line((272, y + 19), (292, y + 19), dashed=True)
        drawing.text(298, y + 24, gives, anchor="start")
        if index:
            drawing.line((140, y - 18), (140, y), arrow=True)
    return drawing


def show_walk(page: Page) -> None:
    """Show `walk_of_a_number`."""
    page.drawing(
        "walk",
        walk_of_a_number(),
        caption="How a number reaches a page. No step goes back: reading a table never measures anything.",
        alt="Five boxes from top to bottom: a call runs, the timer adds how it was taken, the judge asks what the "
        "samples prove, the chapter records it, the page shows it.",
    )


def turns_and_blocks() -> Drawing:
    """Return two orders in which two versions meet a slow moment, and the blocks in which samples are taken."""
    drawing = Drawing(322)
    cell, left = 32.0, 70.0
    slow = left + 6 * cell
    drawing.box(slow, 28, 4 * cell, 140, color="waiting", dashed=True)
    drawing.text(slow + 2 * cell, 18, "a slow moment")
    orders = (("in a row", 44.0, "AAAAAABBBBBB"), ("in turns", 134.0, "ABBABAABABBA"))
    for name, y, order in orders:
        drawing.text(left - 6, y + 22, name, anchor="end")
        for at, version in enumerate(order):
            color = "forward" if version == "A" else "backward"
            drawing.box(left + at * cell, y, cell, cell, version, color=color)
    drawing.text(left, 96, "hits B: it looks slow", anchor="start")
    for pair in range(6):
        drawing.brace((left + 2 * pair * cell + 3, 170), (left + 2 * (pair + 1) * cell - 3, 170), "")
    drawing.text(left, 198, "hits both of a pair: its ratio stays", anchor="start")
    for block in range(6):
        drawing.box(left + block * 66, 228, 54, 34, f"{block + 1}", color="update")
    drawing.text(left - 6, 250, "blocks", anchor="end")
    drawing.brace((left, 268), (left + 5 * 66 + 54, 268), "each block: other places in memory")
    drawing.text(left, 316, "and again in fresh processes, all along", anchor="start")
    return drawing


def show_turns(page: Page) -> None:
    """Show `turns_and_blocks`."""
    page.drawing(
        "turns",
        turns_and_blocks(),
        caption="Two versions, A and B, and a slow moment. In a row it hits one of them; in turns it hits both of a "
        "pair, and their ratio stays. Blocks and fresh processes let the place in memory vary, too.",
        alt="A row of six A and six B, in which a slow moment covers four B; and a row of pairs of A and B, in "
        "which it covers two whole pairs. Below, six blocks, each at other places in memory.",
    )


def repeated_intervals(repeats: int = _REPEATS, samples: int = _SAMPLES, seed: int = 1) -> Drawing:
    """Return the 95 % intervals of the median of repeated measurements of one thing, drawn at random, and the truth."""
    draw = np.random.default_rng(seed)
    taken = [Measurement("drawn", tuple(draw.normal(0, 1, samples)), "") for _ in range(repeats)]
    step, top, middle, wide = 12.0, 34.0, 240.0, 130.0
    drawing = Drawing(top + repeats * step + 30)
    bottom = top + repeats * step
    drawing.line((middle, top - 8), (middle, bottom + 4), color="baseline", width=3)
    drawing.text(middle, 18, "the true median")
    for index, one in enumerate(taken):
        y = top + (index + 0.5) * step
        low, high = (middle + wide * end for end in (one.interval.low, one.interval.high))
        holds = low <= middle <= high
        drawing.line((low, y), (high, y), color="forward" if holds else "waiting", width=2.5)
        drawing.circle(middle + wide * one.median, y, 2.5, color="forward" if holds else "waiting")
        if not holds:
            drawing.text(10, y + 5, "misses", anchor="start")
    drawing.text(middle, bottom + 24, "each line: one measurement and its interval")
    return drawing


def show_intervals(page: Page) -> None:
    """Show `repeated_intervals`."""
    page.drawing(
        "intervals",
        repeated_intervals(),
        caption=f"What an interval promises: {_REPEATS} measurements of the same thing, {_SAMPLES} samples each, drawn "
        "from a made distribution whose median is known. Of many such intervals at least 95 in a hundred hold it.",
        alt="Horizontal lines, one below the other, most of which cross an upright line that marks the true median; "
        "those that miss it are marked.",
    )
