"""The course's plot: time, memory and accuracy of each model, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.model_io import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of bars whose model has no colour of its own.
_COLOR = "#2d96f0"
#: What is drawn: its label with the unit, and the factor from the base unit.
_PANELS = (("time (ms)", 1e3), ("peak memory (MiB)", 1 / MIB), ("accuracy (%)", 100.0))


def plot_performance_comparison(
    results: Mapping[str, Performance],
    axes: Sequence[Axes] | None = None,
    colors: Mapping[str, str] | None = None,
    ink: str = "black",
) -> Figure:
    """Return a figure of three panels: time at the smallest batch, peak memory at the largest, and accuracy.

    Bars are medians or shares, error bars their 95 % intervals. Where no model has an accuracy there is no third panel.

    Args:
        results: what `benchmark_suite` returned.
        axes: where to draw instead of on a new figure, one for each panel.
        colors: of the bars, by name; the same for all by default.
        ink: colour of the error bars.

    Raises:
        ValueError: if there are no results, or not as many axes as panels.
    """
    from matplotlib.figure import Figure  # takes as long to import as all else that a process of a run needs

    if not results:
        raise ValueError("results must hold at least one model")
    taken = {name: (one.time, one.peak_memory, one.accuracy) for name, one in results.items()}
    panels = [index for index in range(3) if any(values[index] is not None for values in taken.values())]
    figure = Figure(figsize=(4.8, 0.9 + len(panels) * (0.6 + 0.28 * len(results))), layout="constrained")
    drawn = list(figure.subplots(len(panels), 1) if axes is None else axes)
    if len(drawn) != len(panels):
        raise ValueError(f"axes must hold {len(panels)} axes, one for each panel, not {len(drawn)}")
    for ax, index in zip(drawn, panels, strict=True):
        label, factor = _PANELS[index]
        for name, values in taken.items():
            value = values[index]
            if value is not None:
                _bar(ax, name, value, factor, (colors or {}).get(name, _COLOR), ink)
        ax.invert_yaxis()
        ax.set_xlabel(label)
    made = drawn[0].figure
    assert isinstance(made, Figure)
    return made


def _bar(ax: Axes, name: str, value: Measurement, factor: float, color: str, ink: str) -> None:
    middle, interval = value.median, value.interval
    ends = [[max(0.0, middle - interval.low) * factor], [max(0.0, interval.high - middle) * factor]]
    ax.barh([name], [middle * factor], color=color, height=0.7)
    ax.errorbar([middle * factor], [name], xerr=ends, fmt="none", ecolor=ink, elinewidth=1.2, capsize=3)
