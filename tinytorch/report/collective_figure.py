"""Collectives as a figure and a table: time or bandwidth over the size, and the lines fitted to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinytorch.perf.distributed.messages.collective_times import Kind
from tinytorch.perf.distributed.messages.collectives import Collectives
from tinytorch.perf.distributed.messages.link_fit import FittedLink
from tinytorch.perf.measuring import Measurement
from tinytorch.report.colors import color
from tinytorch.report.figures import line, subplots
from tinytorch.report.numbers import common_scale
from tinytorch.report.page import Page
from tinytorch.report.shown import Shown
from tinytorch.report.tables import Column

Shows = Literal["time", "bandwidth"]
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
    Column("worst", "Farthest off", "%"),
    Column("holds", "Holds"),
)


def collective_figure(
    collectives: Collectives,
    kinds: Sequence[Kind],
    *,
    shows: Shows = "time",
    fitted: Mapping[Kind, Sequence[FittedLink]] | None = None,
) -> Figure:
    """Return the times, or bandwidths, of ``kinds`` over the size of the message, both axes logarithmic.

    Where ranks had to share cores, the legend says so of each kind.

    Args:
        kinds: of those that were measured.
        shows: what the vertical axis shows.
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
        times = collectives.of(kind) if shows == "time" else collectives.bandwidths(kind)
        sizes = sorted(times)
        line(ax, sizes, [times[size] for size in sizes], quantity=shows, variant=VARIANTS[kind], label=kind + marked)
    _draw_fitted(ax, collectives, kinds, shows, fitted or {})
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    _name_sizes(ax, collectives.sizes)
    _legend_below(figure, columns)
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
            "smallest": _size_words(link.sizes[0]),
            "largest": _size_words(link.sizes[1]),
            "worst": link.worst,
            "holds": "yes" if link.holds else "no",
        }
        for link in links
    ]


def _bandwidth(link: FittedLink) -> Measurement | None:
    return link.bandwidth if link.has_bandwidth else None


def _legend_below(figure: Figure, columns: int) -> None:
    figure.legend(loc="outside lower left", ncols=columns, frameon=False, handletextpad=0.5, columnspacing=1.2)


def _draw_fitted(
    ax: Axes,
    collectives: Collectives,
    kinds: Sequence[Kind],
    shows: Shows,
    fitted: Mapping[Kind, Sequence[FittedLink]],
) -> None:
    unit = "s" if shows == "time" else "B/s"
    first = collectives.of(kinds[0]) if shows == "time" else collectives.bandwidths(kinds[0])
    factor = common_scale([max(one.median for one in first.values())], unit).factor
    for kind, links in fitted.items():
        for link in links:
            sizes = np.geomspace(*link.sizes, 60).clip(*link.sizes)
            seconds = np.array([link.seconds(size) for size in sizes])
            values = seconds if shows == "time" else sizes / seconds
            ax.plot(sizes, values / factor, color=color(VARIANTS[kind]), linestyle=(0, (4, 3)), linewidth=1.2)


def _name_sizes(ax: Axes, sizes: Sequence[int]) -> None:
    """Put at most six ticks on the axis of sizes, in words."""
    step = -(-len(sizes) // 6)
    chosen = sizes[::step]
    ax.set_xticks(chosen, [_size_words(size) for size in chosen])
    ax.minorticks_off()
    ax.set_xlabel("message (bytes)")


def _size_words(size: int) -> str:
    factor, unit = max((step for step in _BYTES if step[0] <= size), default=_BYTES[0])
    return f"{size / factor:.3g} {unit}"
