"""Figures: drawn with error bars and units, and checked. `layouts` writes them, for a desk and for a phone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FuncFormatter, LogFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import Transform

from tinytorch.perf.measuring import Measurement, Modelled
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.report.colors import variant as variant_named
from tinytorch.report.numbers import Scale, common_scale, format_measurement, interval_of, number_body
from tinytorch.report.records import Json, checked_text

#: Inches of a figure as its page draws it.
WIDTH = 4.0
#: Points; what is set smaller cannot be read at 390 pixels.
SMALLEST_TEXT = 9.0
#: Stands for the page's text colour until the SVG is written: matplotlib knows no ``currentColor``.
INK = "#010203"
_IMAGE_NAME = re.compile(r"\S+\.(svg|png|jpe?g|gif|pdf)", re.IGNORECASE)
#: What authors write in the place of a unit, so that none is forgotten; a reader needs no word for it.
_NO_UNIT = re.compile(r",? \(?(unitless|count)\)?$")
_UNIT_IN_LABEL = re.compile(r"\([^()]+\)\s*$|,\s*\S+\s*$|\bunitless\b")

_STYLE: Any = {  # matplotlib's stubs want each key as a literal
    "font.size": 10.0,
    "axes.labelsize": 10.0,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 12),
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "hatch.color"), INK
    ),
}


@dataclass(frozen=True, slots=True)
class Series:
    """Series drawn by one call of `draw_bars` or `draw_line`, kept so that the figure's record can hold its samples."""

    label: str
    variant: str
    x: tuple[float | str, ...]
    values: tuple[Value, ...]


#: How an interval looks in every figure: a line through its mark, or at the end of its bar, without caps.
INTERVAL: Any = {"elinewidth": 1.4, "capsize": 0}

_drawn: WeakKeyDictionary[Figure, list[Series]] = WeakKeyDictionary()
#: Names of points, for which each layout finds a place.
names: WeakKeyDictionary[Axes, list[Annotation]] = WeakKeyDictionary()
_axis_scales: WeakKeyDictionary[Axes, tuple[str, Scale]] = WeakKeyDictionary()


def subplots(rows: int = 1, columns: int = 1, *, height: float = 2.8, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of the book's width and style, of some inches in height, and its axes, as matplotlib does.

    On a phone there is room for one or two columns. ``options`` go to `matplotlib.figure.Figure.subplots`.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(rows, columns, **options)
    return figure, axes


def _figure_of(ax: Axes) -> Figure:
    figure = ax.figure
    if not isinstance(figure, Figure):
        raise TypeError(f"ax must stand in a figure of its own, not in a {type(figure).__name__}")
    return figure


def _checked_series(values: Sequence[Value], count: int, name: str) -> list[Measurement]:
    """Return what tells the values' numbers, if they are as many as ``count`` and share one unit."""
    if not values or len(values) != count:
        raise ValueError(f"values must be as many as {name}, but there are {len(values)} and {count}")
    if bare := [value for value in values if not isinstance(value, Value)]:
        raise TypeError(f"values must be Measurement, Counted, Derived, Modelled or Quoted, not {bare[0]!r}")
    units = {value.unit for value in values}
    if len(units) > 1:
        raise ValueError(f"values must share one unit, not {', '.join(sorted(units))}")
    return [as_measurement(value) for value in values]


def _scale_for(ax: Axes, measurements: Sequence[Measurement]) -> Scale:
    """Return the scale of the axis's quantity: the one that fits the largest of the first series on it."""
    unit = measurements[0].unit
    if ax not in _axis_scales:
        sizes = [m.median for m in measurements]
        _axis_scales[ax] = (unit, common_scale([max(sizes, key=abs, default=0.0)], unit))
    known, scale = _axis_scales[ax]
    if known != unit:
        raise ValueError(f"measurements must be in {known!r} as what is already drawn, not in {unit!r}")
    return scale


def _heights(measurements: Sequence[Measurement], scale: Scale) -> tuple[list[float], list[list[float]]]:
    """Return the medians and the distances down and up to the ends of their intervals, in ``scale``."""
    heights = [one.median / scale.factor for one in measurements]
    pairs = []
    for height, interval in zip(heights, map(interval_of, measurements), strict=True):
        low, high = (height,) * 2 if interval is None else (interval.low / scale.factor, interval.high / scale.factor)
        pairs.append((max(height - low, 0.0), max(high - height, 0.0)))
    return heights, [list(each) for each in zip(*pairs, strict=True)]


def has_a_value(measurement: Measurement) -> bool:
    """Return whether a single value is shown of it; where its interval is wider than that, the ends alone are."""
    return bool(format_measurement(measurement).digits)


def remember(ax: Axes, series: Series) -> None:
    """Keep what was drawn for the record of the figure."""
    _drawn.setdefault(_figure_of(ax), []).append(series)


def draw_bars(
    ax: Axes, labels: Sequence[str], values: Sequence[Value], *, quantity: str, variants: Sequence[str] | str
) -> None:
    """Draw a horizontal bar for each value, from the top down: its median, with its interval as error bar.

    Where the interval is wider than the median, a hollow mark stands for the bar. Bars of `Modelled` values are hollow.
    ``quantity`` is what the axis shows, to which the unit is added; ``variants`` are names in `colors.VARIANTS`.

    Raises:
        ValueError: if lengths or units differ, or a variant is unknown.
    """
    measurements = _checked_series(values, len(labels), "labels")
    names = [variants] * len(labels) if isinstance(variants, str) else list(variants)
    looks = [variant_named(name) for name in names]
    scale = _scale_for(ax, measurements)
    medians, errors = _heights(measurements, scale)
    for index, (measurement, look) in enumerate(zip(measurements, looks, strict=True)):
        shown, modelled = has_a_value(measurement), isinstance(values[index], Modelled)
        ax.barh(
            labels[index],
            medians[index] if shown else 0.0,
            color="none" if modelled else look.color,
            edgecolor=look.color if shown else "none",
            linestyle="--" if modelled else "-",
            height=0.7,
        )
        if not shown:
            ax.plot(medians[index], labels[index], "o", color=look.color, markersize=5.5, markerfacecolor="none")
    ax.errorbar(medians, list(labels), xerr=errors, fmt="none", ecolor=INK, **INTERVAL)
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
    ax.set_xlabel(f"{quantity} ({scale.symbol or 'unitless'})")
    for label, name, value in zip(labels, names, values, strict=True):
        remember(ax, Series(label, name, (label,), (value,)))


def draw_line(
    ax: Axes, x: Sequence[float], values: Sequence[Value], *, quantity: str, variant: str, label: str | None = None
) -> None:
    """Draw the medians of ``values`` over ``x`` as a line with markers, their intervals as error bars.

    Where the interval is wider than the median, the marker is hollow, and the axis need not hold the whole interval.
    The line of what is `Modelled` is dashed.
    The label in the legend is the variant's name by default; see `draw_bars`.

    Raises:
        ValueError: if lengths or units differ, or the variant is unknown.
    """
    measurements = _checked_series(values, len(x), "x")
    kinds = {isinstance(value, Modelled) for value in values}
    if len(kinds) > 1:
        raise ValueError(f"line {label or variant!r} must be modelled as a whole or not at all")
    [modelled] = kinds
    look = variant_named(variant)
    scale = _scale_for(ax, measurements)
    medians, errors = _heights(measurements, scale)
    name = variant if label is None else label
    wide = [at for at, one in enumerate(measurements) if not has_a_value(one)]
    ends = [[(x[at], medians[at] - errors[0][at]), (x[at], medians[at] + errors[1][at])] for at in wide]
    ax.add_collection(LineCollection(ends, colors=look.color, linewidths=INTERVAL["elinewidth"]), autolim=False)
    hollow: dict[str, Any] = {"marker": look.marker, "markersize": 5.5, "markerfacecolor": "none", "linestyle": "none"}
    ax.plot([x[at] for at in wide], [medians[at] for at in wide], color=look.color, **hollow)
    ax.errorbar(
        list(x),
        medians,
        yerr=[[0.0 if at in wide else error for at, error in enumerate(side)] for side in errors],
        color=look.color,
        marker=look.marker,
        markersize=4.5,
        markevery=[has_a_value(one) for one in measurements],
        markerfacecolor="none" if modelled else look.color,
        linestyle=(0, (4, 3)) if modelled else "-",
        linewidth=1.6,
        **INTERVAL,
        label=name,
    )
    ax.set_ylabel(f"{quantity} ({scale.symbol or 'unitless'})")
    remember(ax, Series(name, variant, tuple(float(at) for at in x), tuple(values)))


def name_point(ax: Axes, at: tuple[float, float], words: str, within: Transform | None = None) -> None:
    """Write a name beside a point; each layout looks for a place where it is clear of all that is drawn.

    ``within`` is what ``at`` counts in, such as ``ax.get_xaxis_transform()``; the data of the axes by default.
    """
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 2}
    name = ax.annotate(
        words, at, (0, 0), within or ax.transData, "offset points", ha="center", va="center", fontsize=9.5,
        color=INK, arrowprops=line,
    )  # fmt: skip
    name.set_in_layout(False)
    names.setdefault(ax, []).append(name)


def has_categories(axis: Axis) -> bool:
    """Return whether names stand on the axis, not numbers."""
    return isinstance(axis.get_major_formatter(), StrCategoryFormatter)


def _check_axis(ax: Axes, which: str, key: str) -> None:
    """Raise ValueError if the axis has no label, or a numeric axis has no unit in it."""
    axis: Axis = getattr(ax, f"{which}axis")
    if not (ax.axison and axis.get_visible()) or has_categories(axis):  # categories name themselves
        return
    grouper = ax.get_shared_x_axes() if which == "x" else ax.get_shared_y_axes()
    labels = [getattr(shared, f"get_{which}label")().strip() for shared in (ax, *grouper.get_siblings(ax))]
    label = next((text for text in labels if text), "")
    if not label:
        raise ValueError(f"the {which} axis of figure {key!r} must have a label with its unit")
    if not _UNIT_IN_LABEL.search(label):
        raise ValueError(
            f"the {which} axis of figure {key!r} must name its unit, as in 'latency (ms)' or "
            f"'ratio, unitless', not just {label!r}"
        )


def _check_text(figure: Figure, key: str) -> None:
    for artist in figure.findobj(Text):
        if not isinstance(artist, Text) or not artist.get_visible() or not artist.get_text().strip():
            continue
        size = float(artist.get_fontsize())
        if size < SMALLEST_TEXT:
            raise ValueError(
                f"text {artist.get_text()!r} in figure {key!r} must be at least {SMALLEST_TEXT:g} points "
                f"to be read on a phone, not {size:g}"
            )


def check_words(*, caption: str, alt: str, key: str) -> None:
    """Raise ValueError if caption or alt is empty, or the alt text is the caption or a file's name."""
    checked_text(caption, "caption", key)
    checked_text(alt, "alt", key)
    if alt.strip() == caption.strip() or _IMAGE_NAME.fullmatch(alt.strip()):
        raise ValueError(f"alt of {key!r} must say what the figure shows, neither its caption nor a file's name")


def check_figure(figure: Figure, *, caption: str, alt: str, key: str) -> None:
    """Raise ValueError if the figure is one that a reader could not read.

    It must have a caption; an alt text that is neither the caption nor a file's name; axes with labels and
    units; no title inside; the book's width, and no text too small for a phone.
    """
    check_words(caption=caption, alt=alt, key=key)
    if figure.get_figwidth() > WIDTH:
        raise ValueError(
            f"figure {key!r} must be at most {WIDTH:g} inches wide to be read on a phone, "
            f"not {figure.get_figwidth():g}: draw it with lines() or bars() of tinytorch.report, or on the axes of "
            "tinytorch.report.figures.subplots()"
        )
    titles = [ax.get_title(where) for ax in figure.axes for where in ("left", "center", "right")]
    if figure.get_suptitle() or any(titles):
        raise ValueError(f"figure {key!r} must have no title inside: the caption carries the message")
    for ax in figure.axes:
        _check_axis(ax, "x", key)
        _check_axis(ax, "y", key)
    _check_text(figure, key)


def plain_number(value: float, _position: int | None = None) -> str:
    """Return a number as a tick shows it: in three digits or whole, never as a power of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def settle(figure: Figure) -> None:
    """Make legends follow the page's background, ticks be plain numbers, not small powers, and counts have no unit."""
    for ax in figure.axes:
        legend = ax.get_legend()
        if legend is not None:
            legend.set_frame_on(False)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_label_text(_NO_UNIT.sub("", axis.get_label_text()))
            if isinstance(axis.get_major_formatter(), LogFormatter):
                if isinstance(axis.get_major_locator(), LogLocator):  # not where the page chose the ticks
                    low, high = axis.get_view_interval()
                    steps = (1, 2, 5) if high < 200 * low else (1,)
                    axis.set_major_locator(LogLocator(subs=steps))
                axis.set_major_formatter(FuncFormatter(plain_number))
                axis.set_minor_formatter(NullFormatter())
                axis.set_minor_locator(NullLocator())


def to_body(figure: Figure, *, caption: str, alt: str, key: str) -> Json:
    """Return the body of the figure's record: caption, alt, and the samples of all that was drawn."""
    return {
        "caption": caption.strip(),
        "alt": alt.strip(),
        "series": [
            {
                "label": series.label,
                "variant": series.variant,
                "x": list(series.x),
                "numbers": [number_body(key, value) for value in series.values],
            }
            for series in _drawn.get(figure, [])
        ],
    }
