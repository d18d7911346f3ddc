"""The roofline as a figure: a slope for each level of the memory under one flat peak, and named points below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.perf.roofline.placement import Placed, checked_conditions
from tinytorch.report.colors import color
from tinytorch.report.figures import draw_line, name_point, subplots
from tinytorch.report.numbers import common_scale, format_measurement

#: Inches of the figure.
_HEIGHT = 3.6
#: Share of the width, left of the slopes, that the levels' names take.
_NAMES = 0.16


def roofline_figure(placed: Iterable[Placed], ceilings: Ceilings) -> Figure:
    """Return the hierarchical roofline of ``ceilings`` with a named point for each of ``placed``.

    Axes are logarithmic: operations for each compulsory byte, and operations a second. Each level is a slope with
    its name and a band for the bandwidth's interval; markers on the flat roof are the ridge points, with the interval
    of the peak. Where something that was placed multiplies 8-bit integers, their roof is above it, and slopes go on to
    it dashed. Points have the intervals of their rates.

    Args:
        placed: what to show; each did some arithmetic.
        ceilings: those that they were placed with.

    Raises:
        ValueError: if ``placed`` is empty, one did no arithmetic, or the threads differ.
    """
    placed = list(placed)
    _check(placed, ceilings)
    roofs = {("FP32", "reference"): ceilings.fp32_peak}
    if any(one.demand.integer for one in placed):  # whose operations count as FLOPs here
        roofs["INT8", "quantized"] = ceilings.int8_peak.scaled(1, "FLOP/s")
    slopes = {level.name: best_bandwidth(level) for level in ceilings.levels}
    figure, ax = subplots(height=_HEIGHT)
    factor = common_scale([ceilings.fp32_peak.median], "FLOP/s").factor
    begin = _set_limits(ax, placed, [peak.median for peak in roofs.values()], slopes.values(), factor)
    for (name, look), peak in roofs.items():
        ridges = sorted(peak.median / slope.median for slope in slopes.values())
        label, height = f"{name} peak {format_measurement(peak).text}", peak.median / factor
        draw_line(ax, ridges, [peak] * len(ridges), quantity="rate", variant=look, label=label)
        end = ax.get_xlim()[1]
        ax.plot([ridges[0], end], [height] * 2, color=color(look), linewidth=1.6)
        name_point(ax, ((ridges[-1] * end) ** 0.5, height), label)
    for name, slope in slopes.items():
        _draw_slope(ax, begin, slope, [peak.median for peak in roofs.values()], factor)
        name_point(ax, (begin, begin * slope.median / factor), name)
    for one in placed:
        draw_line(ax, [one.demand.intensity], [one.attained], quantity="rate", variant="measured", label=one.name)
        name_point(ax, (one.demand.intensity, one.attained.median / factor), one.name)
    ax.set_xlabel("arithmetic intensity (FLOP/B)")
    return figure


def _check(placed: Sequence[Placed], ceilings: Ceilings) -> None:
    if not placed:
        raise ValueError("placed must hold at least one point")
    for one in placed:
        if not one.demand.operations:
            raise ValueError(f"placed must hold what does arithmetic, but {one.name} does none: leave it out")
        checked_conditions(one.seconds, ceilings, f"the time of {one.name}")


def _set_limits(
    ax: Axes, placed: Sequence[Placed], peaks: Sequence[float], slopes: Iterable[Measurement], factor: float
) -> float:
    """Make both axes logarithmic and reach over all that is drawn; return where slopes begin, right of their names."""
    medians = [slope.median for slope in slopes]
    across = [one.demand.intensity for one in placed] + [peak / slope for peak in peaks for slope in medians]
    first, last = min(across) / 1.5, max(across) * 3
    rates = [one.attained.interval for one in placed]
    lowest = min(*(rate.low for rate in rates), *(first * slope for slope in medians))
    highest = max(*peaks, *(rate.high for rate in rates))
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(first / (last / first) ** (_NAMES / (1 - _NAMES)), last)
    ax.set_ylim(lowest / 1.7 / factor, highest * 2.5 / factor)
    return first


def _draw_slope(ax: Axes, begin: float, slope: Measurement, peaks: Sequence[float], factor: float) -> None:
    """Draw a level's slope with a band for its interval up to the first peak, and on to higher ones dashed."""
    corners = np.array([begin, *(peak / slope.median for peak in peaks)])
    heights = corners * slope.median / factor
    ax.plot(corners[:2], heights[:2], color=color("reference"), linewidth=1.3, zorder=1)
    if peaks[-1] > peaks[0]:
        ax.plot(corners[1:], heights[1:], color=color("reference"), linewidth=1.3, zorder=1, linestyle=(0, (3, 3)))
    least, most = (corners[:2] * end / factor for end in (slope.interval.low, slope.interval.high))
    ax.fill_between(corners[:2], least, most, color=color("reference"), alpha=0.25, linewidth=0, zorder=0)
