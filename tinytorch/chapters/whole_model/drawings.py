"""Drawings of a whole model: passes over memory, Amdahl's bar, and calls op by op and by a plan."""

from __future__ import annotations

from tinytorch.report import Page
from tinytorch.report.drawings import Drawing


def fusion() -> Drawing:
    """Return three operators that each go to memory and back, and the same three in one pass."""
    drawing = Drawing(236)
    memory, cpu, high = 30, 150, 34
    for left, names, fused in ((8, ("× 2", "tanh", "+ 1"), False), (308, ("× 2, tanh, + 1",), True)):
        wide = 272 if not fused else 164
        drawing.text(left + wide / 2, 18, "one pass" if fused else "an operator at a time", bold=True)
        drawing.box(left, memory, wide, high, "memory", color="numpy")
        each = wide / len(names)
        for at, name in enumerate(names):
            x = left + at * each
            drawing.box(x + 6, cpu, each - 12, high, name, color="compiled")
            drawing.line((x + each * 0.3, memory + high + 2), (x + each * 0.3, cpu - 2), arrow=True)
            drawing.line((x + each * 0.7, cpu - 2), (x + each * 0.7, memory + high + 2), arrow=True)
        middle = (memory + high + cpu) / 2 + 5
        for at in range(len(names)):
            drawing.text(left + at * each + each * 0.3 - 6, middle, "n", anchor="end")
            drawing.text(left + at * each + each * 0.7 + 6, middle, "n", anchor="start")
        moved = 2 * len(names)
        drawing.text(left + wide / 2, 216, f"{moved} n numbers moved")
    return drawing


def show_fusion(page: Page) -> None:
    """Show `fusion`."""
    page.drawing(
        "fusion",
        fusion(),
        caption="Three operators on n numbers. One at a time, each reads its input from memory and writes its result "
        "there. In one pass a number is read, goes through all three in registers, and is written.",
        alt="On the left three boxes, each with an arrow from memory and one back; on the right one box for all three "
        "with a single pair of arrows.",
    )


def amdahl_bar(share: float = 0.6, speedup: float = 4.0) -> Drawing:
    """Return the time of a whole before and after a part of it, ``share``, became ``speedup`` times as fast."""
    drawing = Drawing(150)
    left, wide, high = 76, 390, 36
    part = wide * share
    drawing.text(4, 43, "before", anchor="start")
    drawing.box(left, 20, part, high, "p", color="compiled")
    drawing.box(left + part, 20, wide - part, high, "1 − p", color="baseline")
    drawing.text(4, 115, "after", anchor="start")
    drawing.box(left, 92, part / speedup, high, "p / s", color="compiled")
    drawing.box(left + part / speedup, 92, wide - part, high, "1 − p", color="baseline")
    drawing.line((left + part, 60), (left + part / speedup, 88), dashed=True)
    return drawing


def show_amdahl(page: Page) -> None:
    """Show `amdahl_bar`."""
    page.drawing(
        "amdahl",
        amdahl_bar(),
        caption="Amdahl's law. The part p of the time becomes s times as fast; the rest stays as long as it was, and "
        "is a larger share of what is left.",
        alt="Two bars. In the upper one a long part p and a rest 1 − p; in the lower one the part is a quarter as long "
        "and the rest unchanged.",
    )


def calls() -> Drawing:
    """Return a pass op by op, a call before each, and by a plan, with one call."""
    drawing = Drawing(184)
    high = 34
    drawing.text(4, 18, "op by op", anchor="start", bold=True)
    x = 4.0
    for work in (58, 40, 66, 44):
        drawing.box(x, 28, 64, high, "call", color="baseline")
        drawing.box(x + 64, 28, work, high, "a", color="compiled")
        x += 64 + work
    drawing.text(4, 100, "plan", anchor="start", bold=True)
    x = 4.0
    drawing.box(x, 110, 64, high, "call", color="baseline")
    x += 64
    for work in (58, 40, 66, 44):
        drawing.box(x, 110, work, high, "a", color="compiled")
        x += work
    drawing.line((4, 168), (474, 168), arrow=True)
    drawing.text(440, 160, "time")
    return drawing


def show_calls(page: Page) -> None:
    """Show `calls`."""
    page.drawing(
        "calls",
        calls(),
        caption="A pass of four operations. Op by op each pays for a call before it computes; a plan pays for one call "
        "and then computes step after step.",
        alt="Two bars along an axis of time. The upper one alternates grey calls and coloured work; the lower one has "
        "one grey call and then work only, and ends earlier.",
    )
