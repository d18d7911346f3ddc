"""The Pareto plot: time against accuracy of each variant of a model, with intervals on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from tinytorch.perf.benchmarking import ParetoFront, Performance
from tinytorch.perf.benchmarking.studies_runs import share
from tinytorch.report.figures import INK, line

#: Points between a name and the next below it, as a share of the axis.
_STEP = 0.115


def draw_front(ax: Axes, performances: Sequence[Performance], front: ParetoFront, batch: int) -> None:
    """Draw each variant at its time and accuracy, those on the front filled, and name them at the right edge.

    Args:
        ax: where to draw.
        performances: of one suite, each with an accuracy.
        front: of the same suite.
        batch: whose times are shown.

    Raises:
        ValueError: if one has no accuracy, or that batch size was not measured.
    """
    places = []
    for one in performances:
        if one.correct is None:
            raise ValueError(f"performances must have an accuracy, but {one.name!r} has none")
        seconds, accuracy = one.seconds(batch), share(one.correct, f"accuracy of {one.name}")
        x, within = seconds.median * 1e3, seconds.interval
        beaten = one.name not in front.front
        line(ax, [x], [accuracy], quantity="accuracy", variant="baseline" if beaten else "measured", label=one.name)
        ends = [[max(0.0, x - within.low * 1e3)], [max(0.0, within.high * 1e3 - x)]]
        y = accuracy.median * 100
        ax.errorbar([x], [y], xerr=ends, fmt="none", ecolor=INK, elinewidth=1.0, capsize=2)
        places.append((y, x, one.name, beaten))
    ax.set_xscale("log")
    ax.set_xlabel("time of a call (ms)")
    _name(ax, places)


def _name(ax: Axes, places: list[tuple[float, float, str, bool]]) -> None:
    """Write the names in a column right of the axes, in the order of the points' heights, with a thin line to each."""
    top = 0.5 + _STEP * (len(places) - 1) / 2
    for index, (y, x, name, beaten) in enumerate(sorted(places, reverse=True)):
        ax.annotate(
            f"({name})" if beaten else name,
            xy=(x, y),
            xycoords="data",
            xytext=(1.03, top - index * _STEP),
            textcoords="axes fraction",
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.4, "alpha": 0.5},
        )
