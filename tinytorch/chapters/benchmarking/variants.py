"""The suite of all variants: three numbers of each from one run, who is on a front, and whether gains multiply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinytorch.perf.benchmarking import ParetoFront, Performance
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.measuring import Counted, Derived, Measurement, ratio
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.conditions import of_sides
from tinytorch.report.figures import INK, draw_line, subplots

#: By model of the zoo: what was measured of each variant, by name.
Results = Mapping[str, Mapping[str, Performance]]

BATCH = 64
#: Relative difference of time or bytes for which somebody would take one variant and not the other.
MATTERS = 0.2


@dataclass(frozen=True)
class Row:
    """A variant in batches of 64; ``speedup`` is its time against that of the baseline, which has none."""

    name: str
    rate: Measurement
    speedup: Comparison | None
    memory: Measurement
    right: Measurement


def against_baseline(measured: Mapping[str, Performance]) -> list[Row]:
    """Return what each variant takes and gives, and what it changed from the first."""
    changed = compare_with_first(measured, matters=MATTERS)
    changes = {name: change.speedups[BATCH] for name, change in changed.items()}
    return [
        Row(name, one.throughput[BATCH], changes.get(name), one.memory, one.accuracy) for name, one in measured.items()
    ]


@dataclass(frozen=True)
class Gain:
    """What a change brings: the time without any over that with it, in turns."""

    name: str
    speedup: Measurement


def gains(times: Mapping[str, Measurement], baseline: str) -> dict[str, Gain]:
    """Return what each change brings, from times that were taken in turns; ``baseline`` is without any."""
    before = times[baseline]
    return {name: Gain(name, ratio(before, each)) for name, each in times.items() if name != baseline}


def kept_of_product(gained: Mapping[str, Gain], parts: Sequence[str], combined: str) -> Measurement:
    """Return the speedup of ``combined`` over the product of its ``parts``' speedups: 1 if their gains multiply.

    Each sample is made of times that are neighbours.
    """
    both, singles = gained[combined].speedup, [gained[name].speedup for name in parts]
    samples = both.samples / np.prod([one.samples for one in singles], axis=0)
    conditions = of_sides({one.name: one.conditions for one in (both, *singles)})
    return Measurement(f"speedup of {combined} over the product of its parts'", tuple(samples.tolist()), "", conditions)


def compared_in(rows: Sequence[Row]) -> Counted:
    """Return by how many comparisons the confidence of their intervals is shared."""
    what = "comparisons of the suite whose intervals hold together"
    return Counted(max(row.speedup.compared for row in rows if row.speedup), "1", what)


def on_fronts(results: Results, fronts: Mapping[str, ParetoFront]) -> tuple[Derived, Counted]:
    """Return how many variants are on the front of their model, and how many there are."""
    timed = tuple(one.seconds(BATCH) for measured in results.values() for one in measured.values())
    size = sum(len(front.front) for front in fronts.values())
    on_one = Derived(size, "1", "variants on the fronts of the two models", timed, "it counts verdicts")
    return on_one, Counted(len(timed), "1", "variants of the two models")


def draw_fronts(results: Results, fronts: Mapping[str, ParetoFront], *, xlabel: str, ylabel: str) -> Figure:
    """Return a panel for each model, with each variant at its time and share of right answers.

    The names of those that are not on the front stand in brackets.
    """
    figure, axes = subplots(len(fronts), 1, height=2.8 * len(fronts), squeeze=False)
    for ax, (model, measured) in zip(axes[:, 0], results.items(), strict=True):
        places = []
        for name, one in measured.items():
            beaten, right = name not in fronts[model].front, one.accuracy
            seconds = one.seconds(BATCH).scaled(1e3)
            x, y, within = seconds.median, right.median * 100, seconds.interval
            draw_line(ax, [x], [right], quantity="right", variant="baseline" if beaten else "measured", label=name)
            ends = [[max(0.0, x - within.low)], [max(0.0, within.high - x)]]
            ax.errorbar([x], [y], xerr=ends, fmt="none", ecolor=INK, elinewidth=1.0, capsize=2)
            places.append((y, x, f"({name})" if beaten else name))
        ax.set_xscale("log")
        ax.set_xlabel(f"{xlabel} (ms)")
        ax.set_ylabel(f"{ylabel}, {model.upper()} (%)")
        _name(ax, places)
    return figure


def _name(ax: Axes, places: list[tuple[float, float, str]]) -> None:
    """Write the names in a column right of the axes, in the order of the points' heights, with a thin line to each."""
    for index, (y, x, name) in enumerate(sorted(places, reverse=True)):
        ax.annotate(
            name,
            xy=(x, y),
            xycoords="data",
            xytext=(1.03, 0.5 + 0.115 * ((len(places) - 1) / 2 - index)),
            textcoords="axes fraction",
            fontsize=9.5,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.4, "alpha": 0.5},
        )
