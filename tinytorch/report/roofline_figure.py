"""The roofline as a figure: a slope for each level of the memory under one flat peak, and numbered points below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.perf.roofline.placement import Placed, checked_conditions
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, draw_line, subplots
from tinytorch.report.numbers import common_scale, format_measurement

#: Points of text; see `figures.SMALLEST_TEXT`.
_LABEL = 9.5
#: Inches of the axes and of one line of the legend below them.
_AXES_HEIGHT, _LEGEND_LINE = 3.3, 0.19
#: Points of the axes' sizes, roughly, on a phone and as wide as the column: what text is kept apart by.
_AXES_POINTS = ((235.0, 190.0), (465.0, 260.0))
#: Letters of a name of which two fit beside each other in the legend.
_SHORT_NAME = 24
#: Share of the width, left of the slopes, that the levels' names take; and what is free between a name and its slope.
_NAMES, _GAP = 0.42, 0.012
#: Where a number may stand around its point, in points, near places first, and what its middle keeps from all else.
_SIDES = np.array(
    [
        (radius * math.cos(turn), radius * math.sin(turn))
        for radius in (11, 15, 19)
        for turn in np.arange(16) * np.pi / 8
    ]
)
_CLEAR = 8.0
#: Points that a letter of a name takes, and as how many spots a line is looked at.
_LETTER, _SPOTS = 5.4, 300

Array = npt.NDArray[np.float64]
Spot = tuple[float, float]


def roofline_figure(
    placed: Iterable[Placed], ceilings: Ceilings, *, variants: Sequence[str] | str = "measured"
) -> Figure:
    """Return the hierarchical roofline of ``ceilings`` with a numbered point for each of ``placed``.

    Axes are logarithmic: operations for each compulsory byte, and operations a second. Each level is a slope with
    its name and bandwidth and a band for the bandwidth's interval; markers on the flat roof are the ridge points,
    with the interval of the peak. Where the CPU multiplies 8-bit integers, their roof is above it, and slopes go on
    to it dashed. Points have the intervals of their rates; the legend says which number is what.

    Args:
        placed: what to show; each did some arithmetic.
        ceilings: those that they were placed with.
        variants: the name in `colors.VARIANTS` of each point, or one for all.

    Raises:
        ValueError: if ``placed`` is empty, one did no arithmetic, the threads differ, or a variant is unknown.
    """
    placed = list(placed)
    looks = [variants] * len(placed) if isinstance(variants, str) else list(variants)
    _check(placed, looks, ceilings)
    roofs = {  # the integers' operations count as FLOPs here
        ("FP32", "reference"): ceilings.fp32_peak,
        ("INT8", "quantized"): ceilings.int8_peak.scaled(1, "FLOP/s"),
    }
    slopes = {level.name: best_bandwidth(level) for level in ceilings.levels}
    columns = 2 if all(len(one.name) <= _SHORT_NAME for one in placed) else 1
    entries = math.ceil((len(placed) + len(roofs)) / columns)
    figure, ax = subplots(height=_AXES_HEIGHT + _LEGEND_LINE * (1 + entries))
    factor = common_scale([ceilings.fp32_peak.median], "FLOP/s").factor
    _set_limits(ax, placed, [peak.median for peak in roofs.values()], slopes.values(), factor)
    lines = []
    for (name, look), peak in roofs.items():
        ridges = sorted(peak.median / slope.median for slope in slopes.values())
        label, height = f"{name} peak {format_measurement(peak).text}", peak.median / factor
        draw_line(ax, ridges, [peak] * len(ridges), quantity="rate", variant=look, label=label)
        lines.append(((ridges[0], height), (ax.get_xlim()[1], height)))
        ax.plot(*zip(*lines[-1], strict=True), color=color(look), linewidth=1.6)
    for slope in slopes.values():
        lines.append(_draw_slope(ax, slope, [peak.median for peak in roofs.values()], factor))
    for number, (one, look) in enumerate(zip(placed, looks, strict=True), start=1):
        at, label = one.demand.intensity, f"{number} {one.name}"
        draw_line(ax, [at], [one.attained], quantity="rate", variant=look, label=label)
        ends = one.attained.interval
        lines.append(((at, ends.low / factor), (at, ends.high / factor)))
    ax.set_xlabel("arithmetic intensity (FLOP/B)")
    names = _name_levels(ax, slopes, factor)
    _number_points(ax, [(one.demand.intensity, one.attained.median / factor) for one in placed], lines, names)
    figure.legend(loc="outside lower left", ncols=columns, frameon=False, handletextpad=0.5, columnspacing=1.2)
    return figure


def _check(placed: Sequence[Placed], looks: Sequence[str], ceilings: Ceilings) -> None:
    if not placed:
        raise ValueError("placed must hold at least one point")
    if len(looks) != len(placed):
        raise ValueError(f"variants must be as many as placed, but there are {len(looks)} and {len(placed)}")
    for one in placed:
        if not one.demand.operations:
            raise ValueError(f"placed must hold what does arithmetic, but {one.name} does none: leave it out")
        checked_conditions(one.seconds, ceilings, f"the time of {one.name}")


def _set_limits(
    ax: Axes, placed: Sequence[Placed], peaks: Sequence[float], slopes: Iterable[Measurement], factor: float
) -> None:
    """Make both axes logarithmic and reach over all that is drawn, with room for the levels' names on the left."""
    medians = [slope.median for slope in slopes]
    across = [one.demand.intensity for one in placed] + [peak / slope for peak in peaks for slope in medians]
    first, last = min(across) / 2, max(across) * 3
    rates = [one.attained.interval for one in placed]
    lowest = min(*(rate.low for rate in rates), *(first * slope for slope in medians))
    highest = max(*peaks, *(rate.high for rate in rates))
    ax.set(xscale="log", yscale="log")
    ax.set_xlim(first / (last / first) ** (_NAMES / (1 - _NAMES)), last)
    ax.set_ylim(lowest / 2 / factor, highest * 2.5 / factor)


def _across(ax: Axes, share: float) -> float:
    """Return the intensity at a share of the width."""
    left, right = ax.get_xlim()
    return float(left * (right / left) ** share)


def _draw_slope(ax: Axes, slope: Measurement, peaks: Sequence[float], factor: float) -> tuple[Spot, Spot]:
    """Draw a level's slope with a band for its interval up to the first peak, and on to higher ones dashed."""
    corners = np.array([_across(ax, _NAMES), *(peak / slope.median for peak in peaks)])
    heights = corners * slope.median / factor
    ax.plot(corners[:2], heights[:2], color=color("reference"), linewidth=1.3, zorder=1)
    if peaks[-1] > peaks[0]:
        ax.plot(corners[1:], heights[1:], color=color("reference"), linewidth=1.3, zorder=1, linestyle=(0, (3, 3)))
    least, most = (corners[:2] * end / factor for end in (slope.interval.low, slope.interval.high))
    ax.fill_between(corners[:2], least, most, color=color("reference"), alpha=0.25, linewidth=0, zorder=0)
    return (float(corners[0]), float(heights[0])), (float(corners.max()), float(heights.max()))


def _name_levels(ax: Axes, slopes: dict[str, Measurement], factor: float) -> dict[str, Spot]:
    """Write each level's name and bandwidth left of where its slope begins, apart enough; return where each ends."""
    begin, (low, high) = _across(ax, _NAMES), ax.get_ylim()
    apart = (high / low) ** (1.25 * _LABEL / _AXES_POINTS[0][1])
    written: dict[str, Spot] = {}
    height = 0.0
    for name, slope in sorted(slopes.items(), key=lambda item: item[1].median):
        at = slope.median * begin / factor
        height = max(at, height * apart)
        words = f"{name} {format_measurement(slope).text}"
        written[words] = end = (_across(ax, _NAMES - _GAP), height)
        ax.annotate(words, (begin, at), end, textcoords="data", ha="right", va="center", fontsize=_LABEL, color=INK)
    return written


def _number_points(ax: Axes, points: list[Spot], lines: list[tuple[Spot, Spot]], names: dict[str, Spot]) -> None:
    """Write each point's number beside it, where it is clear of lines, names, other points and other numbers.

    The figure is laid out twice, so that a place must be clear in both sizes of the axes.
    """
    low, high = np.log(np.transpose([ax.get_xlim(), ax.get_ylim()]))
    papers = []
    for size in np.array(_AXES_POINTS):
        begin, end, ends, at = (
            (np.log(np.array(spots)) - low) / (high - low) * size
            for spots in (*zip(*lines, strict=True), list(names.values()), points)
        )
        begin = np.vstack([begin, ends - [[_LETTER * len(words), 0] for words in names]])
        along = np.linspace(0, 1, _SPOTS)[:, None, None] * (np.vstack([end, ends]) - begin)
        papers.append((size, at, (begin + along).reshape(-1, 2)))
    chosen: list[Array] = []
    for number, point in enumerate(points):
        room = np.min([_room(*paper, number, chosen) for paper in papers], axis=0)
        best = max(range(len(_SIDES)), key=lambda at: (min(room[at], _CLEAR), -(at // 16), room[at]))
        chosen.append(_SIDES[best])
        ax.annotate(
            str(number + 1), point, _SIDES[best], textcoords="offset points", ha="center", va="center",
            fontsize=_LABEL, color=INK,
        )  # fmt: skip


def _room(size: Array, points: Array, drawn: Array, number: int, chosen: Sequence[Array]) -> Array:
    """Return how far each side of a point is from what is drawn; less where it is nearer to another point."""
    spots = points[number] + _SIDES
    numbers, others = points[:number] + np.reshape(chosen, (-1, 2)), np.delete(points, number, axis=0)
    nearer = np.linalg.norm(_SIDES, axis=1) - _CLEAR / 2
    parts = (_distances(spots, drawn), _distances(spots, numbers) - _CLEAR / 2, _distances(spots, others) - nearer)
    return np.min([*parts, spots.min(axis=1), (size - spots).min(axis=1)], axis=0)


def _distances(spots: Array, others: Array) -> Array:
    """Return how far each spot is from the nearest of others; infinitely where there are none."""
    return np.linalg.norm(spots[:, None] - others, axis=2).min(axis=1, initial=math.inf)
