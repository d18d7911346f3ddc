"""Messages of the page on several ranks: their times in each group of processes, their ratios, and rings by formula."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch.perf.distributed.cluster_model.collective_costs import Line, halving_all_reduce, ring_all_reduce
from tinytorch.perf.distributed.collectives.link_fit import BECAUSE
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.collectives.timing import Kind
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured, ratio
from tinytorch.perf.measuring.conditions import of_processes
from tinytorch.report.figures import draw_line, subplots
from tinytorch.report.numbers import common_scale

#: A message: its kind, and its bytes.
Message = tuple[Kind, int]


def medians(times: Measurement) -> list[float]:
    """Return the median of the samples in each group of processes."""
    return [float(each) for each in np.median(np.reshape(times.samples, (-1, times.conditions.block or times.n)), 1)]


def samples_figure(talk: Collectives, *, xlabel: str, ylabel: str) -> Figure:
    """Return the times over size, both axes logarithmic: a line for each kind and group of processes, no intervals.

    Where ranks had to share cores, the name of each kind says so.
    """
    figure, ax = subplots(height=3.0)
    for kind in talk.kinds:
        groups = zip(*(medians(times) for times in talk.of(kind).values()), strict=True)
        label = kind + (", ranks share cores" if talk.oversubscribed else "")
        for number, group in enumerate(groups, 1):
            points = [Measurement(f"{kind} in group {number}", (seconds,), "s") for seconds in group]
            draw_line(ax, [*talk.of(kind)], points, quantity=ylabel, variant=kind.replace(" ", "-"),
                      label=label if number == 1 else "_")  # fmt: skip
    for line in ax.lines:
        line.set(linewidth=0.8, markersize=3, markevery=2)  # at the sizes that the axis names
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    shown = [(size, common_scale([size], "B")) for size in talk.sizes[::2]]
    ax.set_xticks(talk.sizes[::2], [f"{size / scale.factor:.3g} {scale.symbol}" for size, scale in shown])
    ax.minorticks_off()
    ax.set_xlabel(xlabel)
    ax.legend()
    return figure


def over(talk: Collectives, one: Message, other: Message, name: str) -> Measurement | Unmeasured:
    """Return the time of one message over that of another as the processes of this build tell it, a sample for each.

    Where the host places the cores hits two messages of few bytes alike: in seven builds such ratios lay within 8 % of
    their middle, and the times within 40 %. So what the times of builds differ by is not added to what processes do.
    """
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    (kind, size), (other_kind, other_size) = one, other
    times, beside = talk.of(kind)[size], talk.of(other_kind)[other_size]
    pairs = ratio(times, beside).samples
    samples = tuple(float(each) for each in np.median(np.reshape(pairs, (-1, times.conditions.block or times.n)), 1))
    return Measurement(name, samples, "", of_processes([times.conditions, beside.conditions]))


def growth(talk: Collectives) -> Measurement | Unmeasured:
    """Return the bandwidth of the largest all-reduce over that of the smallest; builds differ in it as in times."""
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    smallest, largest = (talk.of("all-reduce")[size] for size in (talk.sizes[0], talk.sizes[-1]))
    more = talk.sizes[-1] / talk.sizes[0]
    return ratio(smallest, largest, "bandwidth of the largest all-reduce over that of the smallest").scaled(more)


def ring_costs(counts: Sequence[int], few: float, many: float, line: Line) -> list[dict[str, Any]]:
    """Return all-reduces by number of ranks, rising, of few and of many bytes; growth is over the fewest ranks.

    The tree is the one of recursive halving, which sends as many bytes as the ring.
    """

    def by_formula(value: float, unit: str, what: str) -> Modelled:
        return Modelled(value, unit, what, "formulas of a ring and a tree")

    rings = {"small": few, "large": many}
    return [
        {"ranks": p, "sent": by_formula(2 * (p - 1) / p, "", "numbers sent over those of the array")}
        | {"tree": by_formula(halving_all_reduce(few, p, line), "s", "an all-reduce by halving")}
        | {
            name: by_formula(ring_all_reduce(nbytes, p, line), "s", "a ring all-reduce")
            for name, nbytes in rings.items()
        }
        | {
            f"{name}_growth": by_formula(
                ring_all_reduce(nbytes, p, line) / ring_all_reduce(nbytes, counts[0], line), "", "over the fewest ranks"
            )
            for name, nbytes in rings.items()
        }
        for p in counts
    ]
