"""Drawings of the page on profiling: the seam, Amdahl's law, and the products of a step back."""

from __future__ import annotations

from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.report import Drawing, Page

#: Share and speedup of the part in the drawing of Amdahl's law.
_SHARE, _SPEEDUP = 0.6, 3.0


def the_seam() -> Drawing:
    """Return how one call of an op becomes an event, and what is read off the events."""
    drawing = Drawing(290)
    drawing.box(10, 20, 120, 44, "your model", color="gpt")
    drawing.line((130, 42), (176, 42), arrow=True)
    drawing.box(176, 10, 128, 64, "the seam:\none function", color="forward")
    drawing.line((304, 32), (350, 32), arrow=True)
    drawing.line((350, 52), (304, 52), arrow=True)
    drawing.box(350, 20, 120, 44, "NumPy", color="baseline")
    drawing.line((240, 74), (240, 116), arrow=True, color="forward")
    drawing.text(250, 100, "tells who listens", anchor="start")
    drawing.box(
        90, 116, 300, 62, "event: which op, on which shapes,\nin which module, from when to when", color="forward"
    )
    columns = ((10, "time"), (128, "FLOPs"), (246, "memory"), (364, "timeline"))
    for x, name in columns:
        drawing.line((240, 178), (x + 53, 222), arrow=True)
        drawing.box(x, 222, 106, 30, name, color="update")
    drawing.brace((10, 260), (470, 260), "read off the same events, by op or by module")
    return drawing


def show_seam(page: Page) -> None:
    """Show `the_seam`."""
    page.drawing(
        "seam",
        the_seam(),
        caption="Every operation passes the seam, which tells whoever listens. Every profile is read off these events.",
        alt="A model calls one function, the seam, which calls NumPy and hands an event downwards. From the event, "
        "with op, shapes, module and times, arrows lead to time, FLOPs, memory and a timeline.",
    )


def amdahls_bars(share: float = _SHARE, speedup: float = _SPEEDUP) -> Drawing:
    """Return the time of a whole as a bar, before, after a part of it became faster, and with that part gone."""
    drawing = Drawing(200)
    left, width = 90.0, 380.0
    rest, part = (1 - share) * width, share * width
    rows = (
        ("before", 14.0, part, "p"),
        ("after", 74.0, part / speedup, "p / s"),
        ("limit", 134.0, 0.0, ""),
    )
    for name, y, tail, label in rows:
        drawing.text(left - 12, y + 24, name, anchor="end")
        drawing.box(left, y, rest, 38, "1 − p", color="baseline")
        if tail:
            drawing.box(left + rest, y, tail, 38, label, color="quantized")
    faster = amdahl(share, speedup)
    drawing.line((left + width / faster, 64), (left + width / faster, 120), dashed=True)
    drawing.text(left + width / faster + 10, 98, "time that is left", anchor="start")
    drawing.text(left + rest + 10, 158, "never shorter than this", anchor="start")
    drawing.line((left, 186), (left + width, 186), arrow=True)
    drawing.text(left - 12, 191, "time", anchor="end")
    return drawing


def show_amdahl(page: Page) -> None:
    """Show `amdahls_bars`."""
    page.drawing(
        "amdahl",
        amdahls_bars(),
        caption="Amdahl's law as bars: a part takes the share p of the time and becomes s times as fast. The rest "
        "stays.",
        alt="Three bars of time. Before: 1 minus p, and p. After: 1 minus p, and p over s. Limit: 1 minus p alone.",
    )


def products_back() -> Drawing:
    """Return the one product of a linear layer forward, and the two back that have its size each."""
    drawing = Drawing(228)

    def product(y: float, name: str, parts: tuple[str, str, str], colors: tuple[str, str, str]) -> None:
        drawing.text(10, y + 27, name, anchor="start")
        for x, label, color in zip((130.0, 254.0, 378.0), parts, colors, strict=True):
            drawing.box(x, y, 92, 42, label, color=color)
        drawing.text(238, y + 27, "×")
        drawing.text(362, y + 27, "=")

    product(10, "forward", ("X", "W", "Y"), ("forward", "baseline", "forward"))
    drawing.line((10, 74), (470, 74), dashed=True)
    product(96, "backward", ("Xᵀ", "dY", "dW"), ("forward", "backward", "backward"))
    product(160, "", ("dY", "Wᵀ", "dX"), ("backward", "baseline", "backward"))
    drawing.text(240, 222, "each of the three: 2 × rows × inputs × outputs FLOP")
    return drawing


def show_products(page: Page) -> None:
    """Show `products_back`."""
    page.drawing(
        "products-back",
        products_back(),
        caption="A linear layer multiplies once on the way forward and twice on the way back, all of one size.",
        alt="Forward: X times W is Y. Backward: X transposed times dY is dW, and dY times W transposed is dX.",
    )
