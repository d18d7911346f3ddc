"""Drawings of the page on benchmarking: the method, the binomial argument for the median, and turns under drift."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from tinytorch.report import Page
from tinytorch.report.drawings import Drawing

#: Samples of the example that the page works by hand.
SAMPLES = 15
#: Who runs at which moment: one after the other, and in turns whose order is drawn for each pair.
_SEQUENCE, _TURNS = "AAAABBBB", "ABBAABBA"
_COLORS = {"A": "baseline", "B": "measured"}


def show_method(page: Page) -> None:
    """Show measure, transform, validate as a loop that keeps or drops a change."""
    page.drawing(
        "method",
        method(),
        caption="The method: one change at a time goes round, and only what is proven stays.",
        alt="Three boxes from left to right, measure, transform and validate. From validate an arrow leads back to "
        "measure where the change is proven and kept; another leads to a box for reports, where it is dropped.",
    )


def method() -> Drawing:
    """Return the loop."""
    drawing = Drawing(214)
    for x, name, color in ((10, "measure", "numpy"), (180, "transform", "compiled"), (350, "validate", "measured")):
        drawing.box(x, 62, 120, 44, name, color=color)
    asked = ((70, "where does\nthe time go?"), (240, "one change,\npredicted"), (410, "in turns, and\nits results"))
    for x, below in asked:
        drawing.text(x, 128, below)
    drawing.line((130, 84), (180, 84), arrow=True)
    drawing.line((300, 84), (350, 84), arrow=True)
    drawing.line((410, 62), (410, 30), (70, 30), (70, 62), arrow=True)
    drawing.text(240, 22, "proven: keep, and begin anew")
    drawing.line((410, 154), (410, 190), (330, 190), arrow=True)
    drawing.box(130, 172, 200, 36, "not proven: drop, report", dashed=True)
    return drawing


def missed(outside: int, samples: int = SAMPLES) -> float:
    """Return the chance that the median lies beyond the pair that leaves ``outside`` samples on each side."""
    return 2 * sum(comb(samples, below) for below in range(outside + 1)) / 2**samples


def show_order_statistics(page: Page) -> None:
    """Show which samples bound the median of fifteen, and how often they do not."""
    page.drawing(
        "order-statistics",
        order_statistics(3),
        caption="Fifteen samples in order, and the chance of each number of them to lie below the true median. The "
        "interval misses only in the coloured tails.",
        alt="Above, fifteen numbered circles in a row, of which the fourth and the twelfth are marked and a bracket "
        "joins them. Below, sixteen bars of a binomial distribution for 0 to 15 samples below the median; the four "
        "on the left and the four on the right are coloured as tails.",
    )


def order_statistics(outside: int) -> Drawing:
    """Return the samples and the distribution, with the pair that leaves ``outside`` samples on each side."""
    drawing, step = Drawing(276), 30.0
    ends = (outside, SAMPLES - 1 - outside)
    for rank in range(SAMPLES):
        color = "measured" if rank in ends else "modelled" if ends[0] < rank < ends[1] else None
        drawing.circle(30 + rank * step, 20, 12, str(rank + 1), color=color)
    drawing.brace((30 + ends[0] * step, 38), (30 + ends[1] * step, 38), "the interval of the median")
    base, most = 236.0, comb(SAMPLES, SAMPLES // 2)
    for below in range(SAMPLES + 1):
        high = 130 * comb(SAMPLES, below) / most
        is_tail = below <= outside or below >= SAMPLES - outside
        drawing.box(12 + below * 28.5, base - high, 24, high, color="quantized" if is_tail else "modelled")
        drawing.text(24 + below * 28.5, base + 17, str(below))
    tail = f"{50 * missed(outside):.1f} %"
    drawing.text(66, 200, tail)
    drawing.text(414, 200, tail)
    drawing.text(240, 270, "how many of the 15 lie below the true median")
    return drawing


def show_turns(page: Page) -> None:
    """Show why turns cancel drift, on a machine that slows down steadily."""
    page.drawing(
        "turns",
        turns(),
        caption="Two copies of one program, A and B, on a machine that slows down. One after the other, the drift "
        "looks like a difference; in turns, both meet it alike.",
        alt="Two panels, each with a rising line of the time of a call and eight points on it. In the upper panel "
        "four points of A come first and four of B later, so that B lies well above A on average. In the lower "
        "one A and B alternate in a drawn order, and both levels agree.",
    )


def drift(moment: float) -> float:
    """Return how much slower than at first the machine of the drawing is, in units, at a moment from 0 to 7."""
    return 8.0 * moment


def level(order: Sequence[str], who: str) -> float:
    """Return the mean drift that ``who`` meets in the ``order`` of runs."""
    moments = [moment for moment, name in enumerate(order) if name == who]
    return sum(drift(moment) for moment in moments) / len(moments)


def turns() -> Drawing:
    """Return both panels."""
    drawing = Drawing(300)
    for top, title, order in ((0, "one after the other", _SEQUENCE), (150, "in turns", _TURNS)):
        bottom = top + 128.0
        drawing.text(10, top + 20, title, anchor="start", bold=True)
        for moment, who in enumerate(order):
            x, y = 40 + 44.0 * moment, bottom - drift(moment) - 12
            drawing.circle(x, y, 12, who, color=_COLORS[who])
            if moment + 1 < len(order):
                slope = (drift(moment) - drift(moment + 1)) / 44
                drawing.line((x + 14, y + 14 * slope), (x + 30, y + 30 * slope))
        gap = abs(level(order, "B") - level(order, "A"))
        for who, right in (("A", 388), ("B", 420)):
            height = bottom - level(order, who) - 12
            drawing.line((right - 14, height), (right + 14, height), color=_COLORS[who], width=3)
            drawing.text(right, bottom + 12, who)
        drawing.text(404, top + 20, "means differ" if gap > 1 else "means agree")
    return drawing


def show_queue(page: Page) -> None:
    """Show requests that wait for one another."""
    page.drawing(
        "queue",
        queue(),
        caption="Six requests that arrive at random, and a server that takes equally long for each. Who arrives while "
        "it is busy waits, as the dashed lines show.",
        alt="A time line with six arrows for arrivals and six boxes of equal length for answers below. Two requests "
        "are answered at once; four arrive while another is answered and have a dashed line until their box begins.",
    )


def begun(arrivals: Sequence[float], service: float) -> list[float]:
    """Return when the answer to each request begins, if they are answered one by one in their order."""
    free, found = 0.0, []
    for arrived in arrivals:
        found.append(max(arrived, free))
        free = found[-1] + service
    return found


def queue() -> Drawing:
    """Return a short queue: half of the time the server is busy, more or less."""
    drawing, service = Drawing(150), 56.0
    arrivals = (30.0, 62.0, 120.0, 246.0, 262.0, 290.0)
    drawing.text(10, 18, "requests arrive", anchor="start")
    for number, (arrived, start) in enumerate(zip(arrivals, begun(arrivals, service), strict=True), 1):
        drawing.line((arrived, 28), (arrived, 52), arrow=True)
        if start > arrived:
            drawing.line(
                (arrived, 54 + 4 * number), (start, 54 + 4 * number), color="quantized", dashed=True, width=2.5
            )
        drawing.box(start, 84, service, 30, str(number), color="numpy")
    drawing.line((10, 122), (470, 122), arrow=True)
    drawing.text(470, 141, "time", anchor="end")
    return drawing
