"""Scaling as a figure: measured speedups, and beyond the cores what a law promises."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from tinytorch.perf.distributed.scaling.strong_weak import Scaling
from tinytorch.perf.measuring import quantity
from tinytorch.report.figures import INK, line, subplots

#: The laws are drawn up to so many times the ranks that were measured.
_BEYOND = 8


def scaling_figure(scalings: Sequence[Scaling]) -> Figure:
    """Return speedups over ranks, both axes logarithmic: measured ones solid, and each law's modelled ones dashed.

    Numbers of ranks that had to share cores are left out. The thin line is a rank's work for each rank. A law is drawn
    from the largest number of ranks that it was fitted to up to eight times as many, where one applies.

    Raises:
        ValueError: if there is no scaling, or none has more than one rank with a core for each.
    """
    judged = [one for one in scalings if one.judged]
    if not judged:
        raise ValueError("scalings must hold one with more than one rank that each had a core")
    largest = max(max(one.judged) for one in judged) * _BEYOND
    figure, ax = subplots(height=3.2)
    ax.plot([1, largest], [1, largest], color=INK, linewidth=0.8, linestyle=":", label="a rank's work for each rank")
    for one in judged:
        speedups = [quantity(1.0, "", "speedup of 1 rank")]
        speedups += [speedup for count in one.judged if (speedup := one.speedup(count)) is not None]
        line(ax, [1, *one.judged], speedups, quantity="speedup", variant=one.way, label=f"{one.way}, measured")
        law = one.law()
        if law is not None and law.applies:
            ranks = _doubled(max(one.judged), largest)
            promised = [quantity(law.speedup(count), "", f"speedup of {count} ranks by {law.law}") for count in ranks]
            label = f"{law.law}'s law, modelled"
            line(ax, ranks, promised, quantity="speedup", variant=one.way, label=label, modelled=True)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ticks = _doubled(1, largest)
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_yticks(ticks, [str(tick) for tick in ticks])
    ax.set_xlabel("ranks (unitless)")
    ax.legend()
    return figure


def _doubled(first: int, last: int) -> list[int]:
    """Return ``first``, twice it, and so on up to ``last``."""
    found = [first]
    while 2 * found[-1] <= last:
        found.append(2 * found[-1])
    return found
