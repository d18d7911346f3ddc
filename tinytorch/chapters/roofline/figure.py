"""The roofline as a figure, a slope for each level of the memory under one flat peak, and its points as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from tinytorch.perf.machine import Ceilings, Level
from tinytorch.perf.measuring import Counted, Measurement, Modelled
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.perf.roofline.placement import Placed, checked_conditions, ridge
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, draw_line, subplots
from tinytorch.report.numbers import Scale, common_scale, format_measurement
from tinytorch.report.page import Page
from tinytorch.report.tables import Column

#: Points of text; see `figures.SMALLEST_TEXT`.
_LABEL = 9.5
#: Inches of the axes and of one line of the legend below them.
_AXES_HEIGHT, _LEGEND_LINE = 3.3, 0.19
#: Points of the axes' sizes, roughly, on a phone and as wide as the column: what text is kept apart by.
_AXES_POINTS = ((235.0, 190.0), (465.0, 260.0))
#: Letters of a name of which two fit beside each other in the legend.
_SHORT_NAME = 24
#: Share of the width, left of the slopes, that the levels' names take.
_NAMES = 0.42
#: ... of which this much is left free between a name and its slope.
_GAP = 0.012
#: Points from a point to where its number may stand, and those that its middle keeps from what is drawn.
_RADII = (11.0, 15.0, 19.0)
_CLEAR = 8.0
#: Points that a letter of a name takes.
_LETTER = 5.4

Point = tuple[float, float]

#: What a reader asks first stands first: on a phone the rest is reached by scrolling.
_COLUMNS = (
    Column("name", "What"),
    Column("seconds", "Time"),
    Column("bound", "Verdict", judged=True),
    Column("of_roof", "Of its roof"),
    Column("attained", "Rate"),
    Column("intensity", "Intensity (FLOP/B)", "1"),
)
_ASKED = (
    Column("name", "What"),
    Column("operations", "Arithmetic", "FLOP"),
    Column("bytes", "Compulsory traffic", "B"),
    Column("slope", "Bytes from"),
    Column("bandwidth", "At most"),
    Column("least", "Least time", modelled=True),
)


def placed_table(page: Page, key: str, placed: Sequence[Placed], *, caption: str) -> None:
    """Show and record what is ``placed``: how fast it is, its share of its roof and its verdict.

    A second table, under ``key`` and "-roofs", has what it asks for, and the bandwidth that its roof is made of.

    Raises:
        ValueError: if ``placed`` is empty or a key is taken.
    """
    reached_table(page, key, placed, caption=caption)
    asked_table(
        page,
        f"{key}-roofs",
        placed,
        caption=f"What is asked for, from {placed[0].name} to {placed[-1].name}, and where the roof of each takes the "
        "bytes from: the level that holds them, at its bandwidth; between two levels, at the bandwidth measured at "
        "that size; where several deliver, at the mean over all bytes.",
    )


def reached_table(page: Page, key: str, placed: Sequence[Placed], *, caption: str) -> None:
    """Show and record how fast what is ``placed`` is, its share of its roof and its verdict.

    Raises:
        ValueError: if ``placed`` is empty or the key is taken.
    """
    page.table(
        key,
        [
            {
                "name": one.name,
                "seconds": one.seconds,
                "bound": one.verdict.said,
                "of_roof": one.of_roof,
                "attained": one.attained if one.demand.operations else None,
                "intensity": Counted(one.demand.intensity, "1", "operations for each byte"),
            }
            for one in placed
        ],
        _COLUMNS,
        caption=caption,
    )


def asked_table(page: Page, key: str, placed: Sequence[Placed], *, caption: str) -> None:
    """Show and record what is ``placed`` asks for, the bandwidth of its roof, and the least time that this makes.

    Raises:
        ValueError: if ``placed`` is empty or the key is taken.
    """
    page.table(
        key,
        [
            {
                "name": one.name,
                "operations": one.demand.operations,
                "bytes": one.demand.bytes,
                "slope": one.slope.of,
                "bandwidth": one.slope.bandwidth,
                "least": Modelled.by("the roofline", one.roof),
            }
            for one in placed
        ],
        _ASKED,
        caption=caption,
    )


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
    names = [variants] * len(placed) if isinstance(variants, str) else list(variants)
    _check(placed, names, ceilings)
    columns = 2 if all(len(one.name) <= _SHORT_NAME for one in placed) else 1
    entries = len(placed) + len(_flat_roofs(ceilings))
    figure, ax = subplots(height=_AXES_HEIGHT + _LEGEND_LINE * (1 + math.ceil(entries / columns)))
    x_limits, y_limits = _limits(placed, ceilings)
    scale = _draw_roofs(ax, ceilings, x_limits)
    for number, (one, variant) in enumerate(zip(placed, names, strict=True), start=1):
        draw_line(
            ax, [one.demand.intensity], [one.attained], quantity="rate", variant=variant, label=f"{number} {one.name}"
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*x_limits)
    ax.set_ylim(*(limit / scale.factor for limit in y_limits))
    ax.set_xlabel("arithmetic intensity (FLOP/B)")
    _name_levels(ax, ceilings, scale)
    _number_points(ax, placed, ceilings, scale)
    figure.legend(loc="outside lower left", ncols=columns, frameon=False, handletextpad=0.5, columnspacing=1.2)
    return figure


def _check(placed: Sequence[Placed], names: Sequence[str], ceilings: Ceilings) -> None:
    if not placed:
        raise ValueError("placed must hold at least one point")
    if len(names) != len(placed):
        raise ValueError(f"variants must be as many as placed, but there are {len(names)} and {len(placed)}")
    for one in placed:
        if not one.demand.operations:
            raise ValueError(f"placed must hold what does arithmetic, but {one.name} does none: leave it out")
        checked_conditions(one.seconds, ceilings, f"the time of {one.name}")


def _flat_roofs(ceilings: Ceilings) -> list[tuple[str, str, Measurement]]:
    """Return name, variant and rate of each flat roof, FP32's first; operations on integers count as FLOPs here."""
    return [
        ("FP32", "reference", ceilings.fp32_peak),
        ("INT8", "quantized", ceilings.int8_peak.scaled(1, "FLOP/s")),
    ]


def _limits(placed: Sequence[Placed], ceilings: Ceilings) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of intensity and rate, with room for the names of the levels on the left."""
    peak = max(roof.median for _, _, roof in _flat_roofs(ceilings))
    ridges = [ridge(ceilings, level).median for level in ceilings.levels]
    ridges += [peak / best_bandwidth(level).median for level in ceilings.levels]
    first = min(*(one.demand.intensity for one in placed), *ridges) / 2
    last = max(*(one.demand.intensity for one in placed), *ridges) * 3
    slopes = [best_bandwidth(level).median for level in ceilings.levels]
    lowest = min(*(one.attained.interval.low for one in placed), *(first * slope for slope in slopes))
    highest = max(peak, *(one.attained.interval.high for one in placed))
    left = first / (last / first) ** (_NAMES / (1 - _NAMES))
    return (left, last), (lowest / 2, highest * 2.5)


def _share_of(limits: tuple[float, float], at: float) -> float:
    """Return how far ``at`` lies between ``limits``, 0 to 1, on a logarithmic axis."""
    return math.log(at / limits[0]) / math.log(limits[1] / limits[0])


def _slopes_begin(limits: tuple[float, float]) -> float:
    """Return the intensity at which the slopes begin: right of the names of the levels."""
    left, right = limits
    return left * (right / left) ** _NAMES


def _draw_roofs(ax: Axes, ceilings: Ceilings, x_limits: tuple[float, float]) -> Scale:
    """Draw each flat roof through its ridge points and a slope up to each; return the scale of the rates."""
    roofs = _flat_roofs(ceilings)
    scale = common_scale([ceilings.fp32_peak.median], "FLOP/s")
    for name, variant, peak in roofs:
        ridges = sorted(peak.median / best_bandwidth(level).median for level in ceilings.levels)
        label = f"{name} peak {format_measurement(peak).text}"
        draw_line(ax, ridges, [peak] * len(ridges), quantity="rate", variant=variant, label=label)
        ax.axhline(peak.median / scale.factor, _share_of(x_limits, ridges[0]), color=color(variant), linewidth=1.6)
    for level in ceilings.levels:
        _draw_slope(ax, level, [peak.median for _, _, peak in roofs], _slopes_begin(x_limits), scale)
    return scale


def _draw_slope(ax: Axes, level: Level, peaks: Sequence[float], begin: float, scale: Scale) -> None:
    """Draw a level's slope with a band for its interval up to the first peak, and on to higher ones dashed."""
    bandwidth, interval = best_bandwidth(level).median, best_bandwidth(level).interval
    corners = [begin, *(peak / bandwidth for peak in peaks)]
    heights = [begin * bandwidth / scale.factor, *(peak / scale.factor for peak in peaks)]
    ax.plot(corners[:2], heights[:2], color=color("reference"), linewidth=1.3, zorder=1)
    if peaks[-1] > peaks[0]:
        ax.plot(corners[1:], heights[1:], color=color("reference"), linewidth=1.3, zorder=1, linestyle=(0, (3, 3)))
    least, most = ([at * end / scale.factor for at in corners[:2]] for end in (interval.low, interval.high))
    ax.fill_between(corners[:2], least, most, color=color("reference"), alpha=0.25, linewidth=0, zorder=0)


def _name_levels(ax: Axes, ceilings: Ceilings, scale: Scale) -> None:
    """Write each level's name and bandwidth left of where its slope begins, apart enough to be read."""
    left, right = ax.get_xlim()
    begin = _slopes_begin((left, right))
    low, high = ax.get_ylim()
    apart = math.log(high / low) * 1.25 * _LABEL / _AXES_POINTS[0][1]
    slopes = sorted(((best_bandwidth(level), level.name) for level in ceilings.levels), key=lambda pair: pair[0].median)
    heights: list[float] = []
    for bandwidth, _ in slopes:
        wanted = math.log(begin * bandwidth.median / scale.factor)
        heights.append(max(wanted, heights[-1] + apart) if heights else wanted)
    for (bandwidth, name), height in zip(slopes, heights, strict=True):
        ax.annotate(
            f"{name} {format_measurement(bandwidth).text}",
            (begin, bandwidth.median * begin / scale.factor),
            xytext=(begin / (right / left) ** _GAP, math.exp(height)),
            textcoords="data",
            ha="right",
            va="center",
            fontsize=_LABEL,
            color=INK,
        )


def _number_points(ax: Axes, placed: Sequence[Placed], ceilings: Ceilings, scale: Scale) -> None:
    """Write each point's number beside it, where it is clear of lines, names, other points and other numbers.

    The figure is laid out twice, so that a place must be clear in both sizes of the axes.
    """
    limits = (*ax.get_xlim(), *ax.get_ylim())
    drawn = [_Paper(limits, size) for size in _AXES_POINTS]
    for paper in drawn:
        paper.lines.extend(_lines_of(ax, placed, ceilings, scale, paper))
    at = [(one.demand.intensity, one.attained.median / scale.factor) for one in placed]
    for number, point in enumerate(at, start=1):
        others = [other for other in at if other is not point]
        found: list[tuple[float, float, float, Point]] = []
        for radius in _RADII:
            for turn in range(16):
                side = (math.cos(turn * math.pi / 8) * radius, math.sin(turn * math.pi / 8) * radius)
                room = min(paper.room(point, side, others) for paper in drawn)
                found.append((min(room, _CLEAR), -radius, room, side))
        *_, chosen = max(found)
        for paper in drawn:
            paper.numbers.append(paper.beside(point, chosen))
        ax.annotate(
            str(number),
            point,
            xytext=chosen,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=_LABEL,
            color=INK,
        )


@dataclass(frozen=True, slots=True)
class _Paper:
    """The axes in one size: where numbers may stand.

    Attributes:
        limits: of intensity, then of rate.
        size: in points.
        lines: that are drawn, each from point to point of the paper.
        numbers: middles of those that have their place.
    """

    limits: tuple[float, float, float, float]
    size: Point
    lines: list[tuple[Point, Point]] = field(default_factory=list)
    numbers: list[Point] = field(default_factory=list)

    def at(self, intensity: float, rate: float) -> Point:
        left, right, low, high = self.limits
        return _share_of((left, right), intensity) * self.size[0], _share_of((low, high), rate) * self.size[1]

    def beside(self, point: Point, side: Point) -> Point:
        x, y = self.at(*point)
        return x + side[0], y + side[1]

    def room(self, point: Point, side: Point, others: Sequence[Point]) -> float:
        """Return how far the ``side`` of a point is from what is drawn; less where it is nearer to another point."""
        spot = self.beside(point, side)
        free = [_distance(spot, *line) for line in self.lines]
        free += [math.dist(spot, number) - _CLEAR / 2 for number in self.numbers]
        free += [math.dist(spot, self.at(*other)) - math.hypot(*side) + _CLEAR / 2 for other in others]
        free += [spot[0], self.size[0] - spot[0], spot[1], self.size[1] - spot[1]]
        return min(free)


def _lines_of(
    ax: Axes, placed: Sequence[Placed], ceilings: Ceilings, scale: Scale, paper: _Paper
) -> list[tuple[Point, Point]]:
    """Return slopes, flat roofs, intervals of points and, as lines, the names that are written."""
    left, right = ax.get_xlim()
    begin, peaks = _slopes_begin((left, right)), [peak.median for _, _, peak in _flat_roofs(ceilings)]
    slopes = [best_bandwidth(level).median for level in ceilings.levels]
    lines = []
    for slope in slopes:
        corner = max(peaks) / slope, max(peaks) / scale.factor
        lines.append((paper.at(begin, begin * slope / scale.factor), paper.at(*corner)))
    for peak in peaks:
        height = peak / scale.factor
        lines.append((paper.at(peak / max(slopes), height), paper.at(right, height)))
    for one in placed:
        low, high = (end / scale.factor for end in (one.attained.interval.low, one.attained.interval.high))
        lines.append((paper.at(one.demand.intensity, low), paper.at(one.demand.intensity, high)))
    for name in ax.texts:
        x, y = paper.at(*name.xyann) if isinstance(name, Annotation) else paper.at(*name.get_position())
        lines.append(((x - _LETTER * len(name.get_text()), y), (x, y)))
    return lines


def _distance(spot: Point, start: Point, end: Point) -> float:
    """Return how far a spot is from the line between two points."""
    (x, y), (x0, y0), (x1, y1) = spot, start, end
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2
    along = 0.0 if not length else min(1.0, max(0.0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length))
    return math.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0))
