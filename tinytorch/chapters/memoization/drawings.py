"""The drawings of the page on memoization: what is computed again, a step, the cache, prefill and decode, and pages."""

from __future__ import annotations

from collections.abc import Sequence

from tinytorch.report import Drawing, Page

_NEW, _AGAIN, _KEPT, _QUERY = "compiled", "quantized", "cached", "numpy"


def recomputed(steps: int = 5) -> Drawing:
    """Return which positions each step computes, without a cache and with one."""
    wide, high, top = 34.0, 30.0, 62.0
    drawing = Drawing(top + steps * high + 44)
    for left, title, cached in ((74.0, "without a cache", False), (300.0, "with a cache", True)):
        drawing.text(left + steps * wide / 2, 18, title, bold=True)
        drawing.text(left + steps * wide / 2, 44, "position", anchor="middle")
        for step in range(steps):
            for position in range(step + 1):
                new, times = position == step, step - position + 1
                color = _NEW if new else _KEPT if cached else _AGAIN
                text = "" if cached and not new else str(times)
                drawing.box(left + position * wide, top + step * high, wide, high, text, color=color)
    for step in range(steps):
        drawing.text(66, top + (step + 0.5) * high + 5, f"step {step + 1}", anchor="end")
    drawing.box(74, top + steps * high + 16, 20, 20, color=_NEW)
    drawing.text(100, top + steps * high + 31, "first time", anchor="start")
    drawing.box(186, top + steps * high + 16, 20, 20, color=_AGAIN)
    drawing.text(212, top + steps * high + 31, "again", anchor="start")
    drawing.box(300, top + steps * high + 16, 20, 20, color=_KEPT)
    drawing.text(326, top + steps * high + 31, "looked up", anchor="start")
    return drawing


def show_recomputed(page: Page) -> None:
    """Show what each step computes without a cache and with one."""
    page.drawing(
        "recomputed",
        recomputed(),
        caption="Five steps of a growing text. A number says how often the keys and values of that position have been "
        "computed so far.",
        alt="Two triangles of five rows. Without a cache, row five computes five positions, the first of them for the "
        "fifth time. With a cache, each row computes one new position and looks up the others.",
    )


def step(kept: int = 5) -> Drawing:
    """Return the attention of one step: a query that meets all keys, and weights that meet all values."""
    cell, left, count = 44.0, 190.0, kept + 1
    drawing = Drawing(292)
    drawing.box(4, 130, 62, 44, "new\ntoken")
    for top, name, color in ((34.0, "k", _NEW), (134.0, "q", _QUERY), (226.0, "v", _NEW)):
        drawing.box(104, top, 34, 36, name, color=color)
        drawing.line((66, 152), (102, top + 18), arrow=True)
    for top, title, above in ((34.0, "keys", True), (226.0, "values", False)):
        drawing.cells(left, top, 1, count, (cell, 36), color=lambda _, at: _NEW if at == kept else _KEPT)
        drawing.text(left + kept * cell / 2, top - 10 if above else top + 56, f"kept {title}")
        drawing.text(left + (kept + 0.5) * cell, top - 10 if above else top + 56, "new")
        drawing.line((138, top + 18), (left - 3, top + 18), color=_NEW, dashed=True)
    drawing.box(left, 136, count * cell, 32, f"{count} scores, {count} weights", color=_QUERY)
    drawing.line((138, 152), (left - 2, 152), arrow=True)
    for index in range(count):
        x = left + (index + 0.5) * cell
        drawing.line((x, 72), (x, 134), arrow=True)
        drawing.line((x, 168), (x, 224), arrow=True)
    return drawing


def show_step(page: Page) -> None:
    """Show the attention of one step."""
    page.drawing(
        "step",
        step(),
        caption="Attention of one step in one head. The new token makes one query, one key and one value; the query "
        "meets every key, and the weights that result meet every value.",
        alt="A new token makes q, k and v. Keys and values are strips of five kept cells and one new cell. The query "
        "meets the six keys, which gives six weights, and these meet the six values.",
    )


def layout(layers: int = 2, heads: int = 3, kept: int = 5, room: int = 8) -> Drawing:
    """Return the arrays of a cache: for each layer keys and values, by head and position."""
    wide, high, gap = 23.0, 22.0, 34.0
    drawing = Drawing(30 + layers * (heads * high + gap))
    block = heads * high
    for layer in range(layers):
        top = 30 + layer * (block + gap)
        drawing.text(2, top + block / 2 + 5, f"layer {layer + 1}", anchor="start")
        for left, name in ((72.0, "keys"), (284.0, "values")):
            drawing.text(left + room * wide / 2, top - 8, name)
            drawing.cells(
                left,
                top,
                heads,
                room,
                (wide, high),
                color=lambda _, at: _KEPT if at < kept else _NEW if at == kept else None,
            )
    bottom = 30 + layers * (block + gap) - gap
    for left in (72.0, 284.0):
        drawing.brace((left, bottom + 4), (left + kept * wide, bottom + 4), "kept")
        drawing.text(left + (kept + 0.5) * wide, bottom + 26, "new")
        drawing.text(left + (kept + 2.2) * wide, bottom + 26, "free")
    return drawing


def show_layout(page: Page) -> None:
    """Show the arrays of a cache."""
    page.drawing(
        "layout",
        layout(),
        caption="A cache of two layers and three heads with room for eight positions. A row is a head, a column is a "
        "position, and a cell holds as many numbers as the head size says.",
        alt="For each of two layers a grid of keys and a grid of values, three rows by eight columns. Five columns are "
        "kept, the sixth is written now, and two are free.",
    )


def phases(prompt: int = 5, steps: int = 4) -> Drawing:
    """Return prefill and steps on an axis of time, with the rows that each call reads."""
    left, first, each, row = 56.0, 132.0, 66.0, 22.0
    base = 34 + prompt * row
    drawing = Drawing(base + 70)
    drawing.text(2, 34 + row * prompt / 2 - 4, "rows\nread", anchor="start")
    drawing.cells(left, 34, prompt, 1, (first, row), color=_QUERY)
    drawing.text(left + first / 2, 22, "prefill", bold=True)
    for index in range(steps):
        drawing.box(left + first + index * each + 4, base - row, each - 6, row, color=_NEW)
    drawing.text(left + first + steps * each / 2, base - row - 12, "steps, one row each", bold=True)
    drawing.line((left, base + 4), (476, base + 4), arrow=True)
    for index in range(steps + 1):
        x = left + first + index * each
        drawing.line((x, base + 4), (x, base + 26), arrow=True)
        drawing.text(min(x, 470), base + 42, str(index + 1))
    drawing.text(left + first + steps * each / 2, base + 64, "tokens written")
    drawing.text(476, base + 64, "time", anchor="end")
    drawing.brace((left, base + 14), (left + first - 6, base + 14), "first token", depth=6)
    return drawing


def show_phases(page: Page) -> None:
    """Show prefill and steps on an axis of time."""
    page.drawing(
        "phases",
        phases(),
        caption="A prompt of five tokens and five tokens that are written. The prefill reads all rows of the prompt in "
        "one call and gives the first token; each further token takes a step.",
        alt="On an axis of time, a wide block of five rows named prefill, then four narrow blocks of one row each. "
        "An arrow for a written token leaves at the end of the prefill and at the end of each step.",
    )


def pages(first: Sequence[int] = (1, 3), second: Sequence[int] = (1, 5, 2), count: int = 6) -> Drawing:
    """Return two sequences whose positions lie in pages of one memory, where the first page serves both."""
    drawing = Drawing(230)
    wide, left = 66.0, 74.0
    drawing.text(2, 192, "memory", anchor="start")
    used = {index: name for name, held in (("A", first), ("B", second)) for index in held}
    used |= dict.fromkeys(set(first) & set(second), "A and B")
    colors = {"A": _QUERY, "B": _NEW, "A and B": _KEPT}
    for index in range(count):
        who = used.get(index)
        drawing.box(left + index * wide, 168, wide, 40, who or "free", color=colors[who] if who else None)
    for name, places, start in (("A", first, 96.0), ("B", second, 276.0)):
        drawing.text(start - 12, 51, name, anchor="end", bold=True)
        for order, index in enumerate(places):
            x = start + order * 56
            drawing.box(x, 26, 56, 40, f"{4 * order + 1}–{4 * order + 4}", color=colors[used[index]])
            drawing.line((x + 28, 66), (left + (index + 0.5) * wide, 166), arrow=True)
    drawing.text(240, 14, "positions of each sequence")
    return drawing


def show_pages(page: Page) -> None:
    """Show two sequences whose keys and values lie in pages."""
    page.drawing(
        "pages",
        pages(),
        caption="Pages of four positions. Two sequences hold a list of pages each; the page of their common prefix is "
        "there once, and no sequence sets aside more than it uses.",
        alt="Sequence A has two pages and sequence B three. Arrows lead to a row of six pages of memory: one page "
        "serves both, one serves A, two serve B, and two are free.",
    )
