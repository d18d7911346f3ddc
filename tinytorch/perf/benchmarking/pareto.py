"""The Pareto front: models that no other beats at everything, as far as intervals tell, and their plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinytorch.perf.benchmarking.performance import MATTERS, Performance, compare
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import is_disturbed
from tinytorch.perf.measuring.model_io import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ParetoFront:
    """Pareto front: the models that no other model dominates.

    Attributes:
        front: names that no other model dominates, in the order given.
        dominated: every other name, and the names that dominate it.
        undecided: of the front, those that another model would dominate by the medians alone, and which.

    Examples:
        >>> from tinytorch.perf.benchmarking import ParetoFront
        >>> found = ParetoFront(front=("small", "exact"), dominated={"large": ("exact",)}, undecided={})
        >>> found.front, found.dominated["large"]
        (('small', 'exact'), ('exact',))
    """

    front: tuple[str, ...]
    dominated: Mapping[str, tuple[str, ...]]
    undecided: Mapping[str, tuple[str, ...]]


def pareto_front(
    performances: Mapping[str, Performance],
    *,
    matters: float = MATTERS,
    told: Callable[[Comparison], Comparison] | None = None,
) -> ParetoFront:
    """Return the Pareto front of models in time, peak memory and accuracy.

    A model dominates another if it is proven better at one of the three, by more than what matters, and proven not
    to be worse at the others by as much. Each pair of models is compared in both directions, and times are
    corrected for the number of pairs, so that all that is said of them holds together with 95 %. Memory is counted;
    each statement on accuracy holds with 95 % by itself. Where one of the two lacked its core because other programs
    were at work during the suite, nothing is proven of their times.

    Args:
        performances: of one `benchmark_suite`, by name.
        matters: relative difference of time that matters.
        told: function that may change the verdict of a comparison of times, for a caller who knows more than the
            suite, such as which other programs ran; by default a verdict stands, or is withheld as above.

    Raises:
        ValueError: if there are none, or they have no batch size in common.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import benchmark_suite, pareto_front
        >>> found = benchmark_suite({"one": Linear(3, 3)}, np.ones((8, 3), np.float32), batches=(1,), repeats=6)
        >>> pareto_front(found).front
        ('one',)
    """
    if not performances:
        raise ValueError("performances must hold at least one model")
    names, verdict_of = [*performances], told or _undisturbed(performances)
    pairs = max(1, len(names) * (len(names) - 1) // 2)
    dominated: dict[str, tuple[str, ...]] = {}
    undecided: dict[str, tuple[str, ...]] = {}
    for name in names:
        better, seemingly = [], []
        for other in names:
            if other == name:
                continue
            change = compare(performances[name], performances[other], matters, together=pairs)
            parts = [verdict_of(change.speedup), change.memory, *([change.accuracy] if change.accuracy else [])]
            if all(part.is_no_loss for part in parts) and any(part.is_gain for part in parts):
                better.append(other)
            gains = [float(part) - (0.0 if part.quantity.is_difference else 1.0) for part in parts]
            if not any(part.is_loss for part in parts) and min(gains) >= 0 and max(gains) > 0:
                seemingly.append(other)
        if better:
            dominated[name] = tuple(better)
        elif seemingly:
            undecided[name] = tuple(seemingly)
    return ParetoFront(tuple(name for name in names if name not in dominated), dominated, undecided)


def pareto_frontier(points: Mapping[str, Sequence[float]], lower_is_better: Sequence[bool]) -> list[str]:
    """Return the names of the points that no other dominates, in the order given.

    One point dominates another if it is at least as good in every coordinate and better in one, by the numbers as they
    are: equal points stay both. Where numbers are measurements, `pareto_front` judges by their intervals.

    Args:
        points: coordinates by name, such as ``{"small": (2.0, 0.94)}``.
        lower_is_better: for each coordinate, whether less of it is better.

    Raises:
        ValueError: if a point has another number of coordinates, or one that is not a number.

    Examples:
        >>> from tinytorch.perf.benchmarking import pareto_frontier
        >>> latency_and_accuracy = {"small": (5, 0.80), "large": (40, 0.94), "bad": (40, 0.70)}
        >>> pareto_frontier(latency_and_accuracy, lower_is_better=(True, False))
        ['small', 'large']
    """
    costs: dict[str, list[float]] = {}
    for name, values in points.items():
        if len(values) != len(lower_is_better):
            raise ValueError(
                f"points must have {len(lower_is_better)} coordinates each, as many as lower_is_better, but "
                f"{name!r} has {len(values)}"
            )
        if any(math.isnan(value) for value in values):
            raise ValueError(f"points must be made of numbers, but {name!r} has nan")
        costs[name] = [value if low else -value for value, low in zip(values, lower_is_better, strict=True)]
    return [
        name
        for name, own in costs.items()
        if not any(other != own and all(o <= c for o, c in zip(other, own, strict=True)) for other in costs.values())
    ]


def _undisturbed(performances: Mapping[str, Performance]) -> Callable[[Comparison], Comparison]:
    """Return what withholds the verdict of a comparison where other programs took time from one of both."""
    others = max((one.conditions.others for one in performances.values() if one.conditions is not None), default=0.0)

    def told(comparison: Comparison) -> Comparison:
        disturbed = is_disturbed([comparison.estimate.conditions], others)
        return comparison.withheld("other programs took the time of one of the two") if disturbed else comparison

    return told


#: Of bars.
_COLOR = "#2d96f0"
#: What is drawn: its label with the unit, and the factor from the base unit.
_PANELS = (("time (ms)", 1e3), ("peak memory (MiB)", 1 / MIB), ("accuracy (%)", 100.0))


def plot_performance_comparison(results: Mapping[str, Performance], *, ink: str = "black") -> Figure:
    """Return a figure of three panels: time at the smallest batch, peak memory at the largest, and accuracy.

    Bars are medians or shares, error bars their 95 % intervals. Where no model has an accuracy there is no third panel.

    Args:
        results: what `benchmark_suite` returned.
        ink: colour of the error bars.

    Raises:
        ValueError: if there are no results.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import benchmark_suite, plot_performance_comparison
        >>> found = benchmark_suite({"one": Linear(3, 3)}, np.ones((8, 3), np.float32), batches=(1,), repeats=6)
        >>> len(plot_performance_comparison(found).axes)  # time and memory; nobody knows the answers
        2
    """
    from matplotlib.figure import Figure  # takes as long to import as all else that a process of a run needs

    if not results:
        raise ValueError("results must hold at least one model")
    taken = {name: (one.time, one.memory, one.accuracy) for name, one in results.items()}
    panels = [index for index in range(3) if any(values[index] is not None for values in taken.values())]
    figure = Figure(figsize=(4.8, 0.9 + len(panels) * (0.6 + 0.28 * len(results))), layout="constrained")
    for ax, index in zip(figure.subplots(len(panels), 1), panels, strict=True):
        label, factor = _PANELS[index]
        for name, values in taken.items():
            value = values[index]
            if value is not None:
                _bar(ax, name, value, factor, ink)
        ax.invert_yaxis()
        ax.set_xlabel(label)
    return figure


def _bar(ax: Axes, name: str, value: Measurement, factor: float, ink: str) -> None:
    middle, interval = value.median, value.interval
    ends = [[max(0.0, middle - interval.low) * factor], [max(0.0, interval.high - middle) * factor]]
    ax.barh([name], [middle * factor], color=_COLOR, height=0.7)
    ax.errorbar([middle * factor], [name], xerr=ends, fmt="none", ecolor=ink, elinewidth=1.4, capsize=0)
