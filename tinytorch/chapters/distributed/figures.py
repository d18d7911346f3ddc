"""Figures of collectives and of scaling, and the table of links: measured points, fitted lines and modelled laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinytorch.chapters.distributed.step_times import Scaling
from tinytorch.perf.distributed.collectives.link_fit import FittedLink
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.collectives.timing import Kind
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, draw_line, subplots
from tinytorch.report.notebook_view import Shown
from tinytorch.report.numbers import common_scale
from tinytorch.report.page import Page
from tinytorch.report.tables import Column

#: The colour of each kind.
VARIANTS: dict[Kind, str] = {
    "point to point": "point-to-point",
    "point to point between hosts": "between-hosts",
    "broadcast": "broadcast",
    "all-gather": "all-gather",
    "reduce-scatter": "reduce-scatter",
    "all-reduce": "all-reduce",
    "ring all-reduce": "ring-all-reduce",
}
#: Inches of the axes and of one line of the legend below them.
_HEIGHT, _LEGEND_LINE = 3.0, 0.19
_BYTES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))

#: Of a table of links.
LINK_COLUMNS = (
    Column("name", "Messages"),
    Column("alpha", "Alpha", "s"),
    Column("bandwidth", "1 / beta", "B/s"),
    Column("smallest", "From"),
    Column("largest", "To"),
    Column("worst", "Farthest off"),
)


def collective_figure(
    collectives: Collectives, kinds: Sequence[Kind], *, fitted: Mapping[Kind, Sequence[FittedLink]]
) -> Figure:
    """Return the times of ``kinds`` over the size of the message, both axes logarithmic.

    Where ranks had to share cores, the legend says so of each kind.

    Args:
        kinds: of those that were measured.
        fitted: lines of some of the kinds, each drawn dashed over the sizes that it was fitted to.

    Raises:
        ValueError: if there is no kind, or one was not measured.
    """
    if not kinds:
        raise ValueError("kinds must name at least one kind that was measured")
    marked = ", ranks share cores" if collectives.oversubscribed else ""
    columns = 1 if marked else 2
    figure, ax = subplots(height=_HEIGHT + _LEGEND_LINE * -(-len(kinds) // columns))
    for kind in kinds:
        times = collectives.of(kind)
        sizes = sorted(times)
        draw_line(
            ax, sizes, [times[size] for size in sizes], quantity="time", variant=VARIANTS[kind], label=kind + marked
        )
    _draw_fitted(ax, max(one.median for one in collectives.of(kinds[0]).values()), fitted)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    _name_sizes(ax, collectives.sizes)
    figure.legend(loc="outside lower left", ncols=columns, frameon=False, handletextpad=0.5, columnspacing=1.2)
    return figure


def link_table(page: Page, key: str, links: Sequence[FittedLink], *, caption: str) -> Shown:
    """Show and record a table of fitted lines: alpha and bandwidth with intervals, sizes, and whether they hold.

    Where bytes cost nothing that can be told, no bandwidth stands there.

    Raises:
        ValueError: if ``links`` are empty or the key is taken.
    """
    return page.table(key, link_rows(links), LINK_COLUMNS, caption=caption)


def link_rows(links: Sequence[FittedLink]) -> list[dict[str, Any]]:
    """Return a row for each link, by the keys of `LINK_COLUMNS`."""
    return [
        {
            "name": link.name,
            "alpha": link.alpha,
            "bandwidth": _bandwidth(link),
            "smallest": size_words(link.sizes[0]),
            "largest": size_words(link.sizes[1]),
            "worst": Derived(
                link.worst, "%", "largest distance from the line", (link.alpha, link.beta), "it is a largest one"
            ),
        }
        for link in links
    ]


def _bandwidth(link: FittedLink) -> Measurement | None:
    return link.bandwidth if link.has_bandwidth else None


def _draw_fitted(ax: Axes, longest: float, fitted: Mapping[Kind, Sequence[FittedLink]]) -> None:
    """Draw lines in the unit of an axis whose longest time is ``longest`` seconds."""
    factor = common_scale([longest], "s").factor
    for kind, links in fitted.items():
        for link in links:
            sizes = np.geomspace(*link.sizes, 60).clip(*link.sizes)
            seconds = np.array([link.seconds(size) for size in sizes])
            ax.plot(sizes, seconds / factor, color=color(VARIANTS[kind]), linestyle=(0, (4, 3)), linewidth=1.2)


def _name_sizes(ax: Axes, sizes: Sequence[int]) -> None:
    """Put at most six ticks on the axis of sizes, in words."""
    step = -(-len(sizes) // 6)
    chosen = sizes[::step]
    ax.set_xticks(chosen, [size_words(size) for size in chosen])
    ax.minorticks_off()
    ax.set_xlabel("message (bytes)")


def size_words(size: int) -> str:
    """Return bytes in powers of 1,024, with three digits."""
    factor, unit = max((step for step in _BYTES if step[0] <= size), default=_BYTES[0])
    return f"{size / factor:.3g} {unit}"


#: The laws are drawn up to so many times the ranks that were measured.
_BEYOND = 8


def scaling_figure(scalings: Sequence[Scaling]) -> Figure:
    """Return speedups over ranks, both axes logarithmic: measured ones solid, and each law's modelled ones dashed.

    Numbers of ranks that had to share cores are left out. The thin line is linear scaling. A law is drawn from the
    largest number of ranks that it was fitted to up to eight times as many, where one applies.

    Raises:
        ValueError: if there is no scaling, or none has more than one rank with a core for each.
    """
    judged = [one for one in scalings if one.judged]
    if not judged:
        raise ValueError("scalings must hold one with more than one rank that each had a core")
    largest = max(max(one.judged) for one in judged) * _BEYOND
    figure, ax = subplots(height=3.2)
    ax.plot([1, largest], [1, largest], color=INK, linewidth=0.8, linestyle=":", label="linear")
    for one in judged:
        speedups: list[Measurement] = [Counted(1, "", "speedup of 1 rank")]
        speedups += [speedup for count in one.judged if (speedup := one.speedup(count)) is not None]
        draw_line(ax, [1, *one.judged], speedups, quantity="speedup", variant=one.way, label=f"{one.way}, measured")
        law = one.law()
        if law is not None and law.applies:
            ranks = _doubled(max(one.judged), largest)
            promised = [
                Modelled(law.speedup(count), "", f"speedup of {count} ranks", f"{law.law}'s law") for count in ranks
            ]
            label = f"{law.law}'s law, modelled"
            draw_line(ax, ranks, promised, quantity="speedup", variant=one.way, label=label)
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
