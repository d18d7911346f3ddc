"""Figures: drawn with error bars and units, checked, and written as SVG that follows light and dark.

A page holds each figure twice, of which its style sheet shows one: as wide as the column, and laid out for a phone.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import LineCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Annotation, Text
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)
from matplotlib.transforms import Transform, blended_transform_factory

from tinytorch.perf.measuring import Measurement, Modelled
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.report.colors import variant as variant_named
from tinytorch.report.numbers import NOT_RESOLVED, Scale, common_scale, format_measurement, interval_of, is_resolved
from tinytorch.report.records import Json, checked_text, number_body

Array = npt.NDArray[np.float64]
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT_FAMILY = re.compile(r"font-family:[^;]*")
_PIXELS_PER_INCH = 96
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
#: What matplotlib puts into a style sheet for ``*``, which inline in a page would reach all of the page.
_ROOT_STYLE = "stroke-linejoin: round; stroke-linecap: butt"


def _raw_svg(figure: Figure, key: str) -> str:
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key, "path.simplify": True}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    return buffer.getvalue()


def _bitmap(figure: Figure) -> bytes:
    """Return the figure as a PNG on white, twice as large as its words need, laid out as it is."""
    buffer = io.BytesIO()
    figure.set_layout_engine("none")  # it has been; else it would all be laid out once more
    figure.savefig(buffer, format="png", dpi=2 * _PIXELS_PER_INCH, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _with_page_style(style: str, ink: str, prefix: str) -> str:
    style = _FONT_FAMILY.sub("font-family: inherit", style)
    style = re.sub(rf"{ink}|#000000", "currentColor", style, flags=re.IGNORECASE)
    return _REFERENCE.sub(rf"url(#{prefix}\1)", style)


def _referenced(root: ET.Element) -> set[str]:
    """Return the ids that something in the drawing refers to."""
    found: set[str] = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == _XLINK:
                found.add(value.removeprefix("#"))
            found.update(_REFERENCE.findall(value))
    return found


def _rewrite(element: ET.Element, referenced: set[str], ink: str, prefix: str) -> None:
    """Give one element the page's colours and font, and ids that are the figure's own."""
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        if name == "id":
            if value in referenced:
                element.set("id", prefix + value)
        elif name == _XLINK:
            element.set("href", "#" + prefix + value.removeprefix("#"))
        else:
            element.set(name, _with_page_style(value, ink, prefix))


def _without(root: ET.Element, tags: tuple[str, ...]) -> None:
    unwanted = {f"{{{_SVG}}}{tag}" for tag in tags}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in unwanted:
                parent.remove(child)


def page_svg(figure: Figure, *, key: str, alt: str, ink: str) -> str:
    """Return the figure as an ``<svg>`` element: transparent, as wide as its place, the same for the same data.

    Args:
        figure: what to draw.
        key: goes before each id and into the hash that matplotlib makes ids of.
        alt: what a reader who does not see the figure is told.
        ink: the colour in the figure that stands for the page's text colour.
    """
    root = ET.fromstring(_raw_svg(figure, key))
    _without(root, ("metadata", "style"))
    prefix = f"figure-{key}-"
    referenced = _referenced(root)
    for element in root.iter():
        _rewrite(element, referenced, ink, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    description = ET.Element(f"{{{_SVG}}}desc", {"id": f"{prefix}alt"})
    description.text = alt
    root.insert(0, description)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}alt")
    root.set("fill", "currentColor")
    root.set("style", _ROOT_STYLE)
    ET.register_namespace("", _SVG)
    return re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode"))


@dataclass(frozen=True, slots=True)
class Layout:
    """How a figure is laid out for one kind of screen.

    Attributes:
        name: class of its ``<svg>``, by which the style sheet chooses.
        width: in inches; a point of text is shown the larger, the fewer there are.
        category: letters of a category's name in one line.
    """

    name: str
    width: float
    category: int


#: On the 672 pixels of a column of text ten points are 15 pixels, as large as the words of drawings.
WIDE = Layout("wide", 6.2, 32)
#: On the 358 pixels that a phone of 390 has for text, nine points are eleven pixels.
NARROW = Layout("narrow", 4.0, 19)
#: Inches of a figure as its page draws it.
WIDTH = NARROW.width
#: Points; what is set smaller cannot be read at 390 pixels.
SMALLEST_TEXT = 9.0
#: A plot without names at its side is this much higher where it is wide.
_HIGHER = 1.2
#: Pixels of a hundred an inch between two ticks' labels, which a browser may set a tenth wider than they are here.
_BETWEEN = 7.0
#: How often labels of ticks are thinned at most: each round leaves half of them.
_MOST_ROUNDS = 5
#: Points from a point to its name, near places first; from where on a line joins both; and what a name keeps clear.
_SIDES = [(radius, turn * math.pi / 8) for radius in (6, 12, 20, 30, 42) for turn in range(16)]
_JOINED, _CLEAR = 13, 3.0
#: Pixels between two spots at which a line is looked at.
_SPOTS = 4.0
#: Letters of a line's name beside its end, and where it stands, in widths of the axes.
_NAME_LETTERS, _BESIDE = 24, 1.03
#: Inches that a letter of an axis's label takes.
_LETTER = 0.075
#: Inches of a line of a title of ten points.
_TITLE_LINE = 10 * 1.2 / 72
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
_names: WeakKeyDictionary[Axes, list[Annotation]] = WeakKeyDictionary()
#: Names at the ends of lines, while a layout has them.
_ends: WeakKeyDictionary[Axes, list[Annotation]] = WeakKeyDictionary()
_axis_scales: WeakKeyDictionary[Axes, tuple[str, Scale]] = WeakKeyDictionary()


def subplots(rows: int = 1, columns: int = 1, *, height: float = 2.8, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of the book's width and style, and its axes, as matplotlib's ``subplots`` does.

    Args:
        rows: axes below one another.
        columns: axes beside one another; on a phone there is room for one or two.
        height: of the whole figure, in inches.
        options: handed to `matplotlib.figure.Figure.subplots`, such as ``sharex=True``.
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
        sizes = [m.median for m in measurements if is_resolved(m)]
        _axis_scales[ax] = (unit, common_scale([max(sizes, key=abs, default=0.0)], unit))
    known, scale = _axis_scales[ax]
    if known != unit:
        raise ValueError(f"measurements must be in {known!r} as what is already drawn, not in {unit!r}")
    return scale


def _heights(measurements: Sequence[Measurement], scale: Scale) -> tuple[list[float], list[list[float]]]:
    """Return the medians and the distances down and up to the ends of their intervals, in ``scale``.

    What is not resolved has no height.
    """
    heights, below, above = [], [], []
    for measurement in measurements:
        interval = interval_of(measurement)
        height = measurement.median if is_resolved(measurement) else math.nan
        low, high = (height, height) if interval is None else (interval.low, interval.high)
        heights.append(height / scale.factor)
        below.append(max(height - low, 0.0) / scale.factor)
        above.append(max(high - height, 0.0) / scale.factor)
    return heights, [below, above]


def has_a_value(measurement: Measurement) -> bool:
    """Return whether a single value is shown of it; where its interval is wider than that, the ends alone are."""
    return bool(format_measurement(measurement).digits)


def _label_with_unit(quantity: str, scale: Scale) -> str:
    return f"{quantity} ({scale.symbol})" if scale.symbol else f"{quantity} (unitless)"


def remember(ax: Axes, series: Series) -> None:
    """Keep what was drawn for the record of the figure."""
    _drawn.setdefault(_figure_of(ax), []).append(series)


def draw_bars(
    ax: Axes, labels: Sequence[str], values: Sequence[Value], *, quantity: str, variants: Sequence[str] | str
) -> None:
    """Draw a horizontal bar for each value, from the top down: its median, with its interval as error bar.

    Where the interval is wider than the median, it stands without a bar; where nothing is known, words say so.

    Args:
        ax: where to draw.
        labels: what each bar is.
        values: all in one unit; as many as ``labels``. The bars of what is `Modelled` are hollow.
        quantity: what the axis shows, such as "latency"; its unit is added.
        variants: the name in `colors.VARIANTS` of each bar, or one for all.

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
        (bar,) = ax.barh(
            labels[index],
            medians[index] if shown else 0.0,
            color="none" if modelled else look.color,
            edgecolor=look.color if shown else "none",
            linestyle="--" if modelled else "-",
            height=0.7,
        )
        if not is_resolved(measurement):
            at, across = (0.0, bar.get_y() + bar.get_height() / 2), ax.get_yaxis_transform()
            ax.annotate(NOT_RESOLVED, at, (4, 0), across, "offset points", va="center", fontstyle="italic")
    ax.errorbar(medians, list(labels), xerr=errors, fmt="none", ecolor=INK, **INTERVAL)
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
    ax.set_xlabel(_label_with_unit(quantity, scale))
    for label, name, value in zip(labels, names, values, strict=True):
        remember(ax, Series(label, name, (label,), (value,)))


def draw_line(
    ax: Axes, x: Sequence[float], values: Sequence[Value], *, quantity: str, variant: str, label: str | None = None
) -> None:
    """Draw the medians of ``values`` over ``x`` as a line with markers, their intervals as error bars.

    Where the interval is wider than the median, it stands without a marker; where nothing is known, the line has a gap
    and the legend says so.

    Args:
        ax: where to draw.
        x: positions, one for each value.
        values: all in one unit. The line of what is `Modelled` is dashed, and its markers are hollow.
        quantity: what the vertical axis shows, such as "latency"; its unit is added.
        variant: a name in `colors.VARIANTS`.
        label: the line's name in the legend; the variant's name if None.

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
    gaps = [plain_number(at) for at, one in zip(x, measurements, strict=True) if not is_resolved(one)]
    ax.errorbar(
        list(x),
        medians,
        yerr=errors,
        color=look.color,
        marker=look.marker,
        markersize=4.5,
        markevery=[has_a_value(one) for one in measurements],
        markerfacecolor="none" if modelled else look.color,
        linestyle=(0, (4, 3)) if modelled else "-",
        linewidth=1.6,
        **INTERVAL,
        label=f"{name}, {NOT_RESOLVED} at {', '.join(gaps)}" if gaps else name,
    )
    ax.set_ylabel(_label_with_unit(quantity, scale))
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
    _names.setdefault(ax, []).append(name)


def _box_of(text: Text) -> tuple[Array, Array]:
    """Return the middle of a text and half of its size, in pixels."""
    box = Text.get_window_extent(text)
    return np.array([box.x0 + box.x1, box.y0 + box.y1]) / 2, np.array([box.width, box.height]) / 2


def _drawn_spots(ax: Axes) -> Array:
    """Return spots along all lines and intervals of the axes, in pixels, and what else no name may cover."""
    paths = [line.get_transform().transform(line.get_xydata()) for line in ax.lines]
    for bars in ax.collections:
        if isinstance(bars, LineCollection):
            paths += [bars.get_transform().transform(each) for each in bars.get_segments() if len(each)]
    paths += [patch.get_transform().transform(patch.get_path().vertices) for patch in ax.patches]
    paths += [
        text.arrow_patch.get_transform().transform(text.arrow_patch.get_path().vertices)
        for text in ax.texts
        if isinstance(text, Annotation) and text.arrow_patch and not text.get_text()
    ]
    spots = []
    for path in paths:
        path = path[np.isfinite(path).all(axis=1)]
        for begin, end in pairwise(path):
            steps = int(min(float(np.linalg.norm(end - begin)) / _SPOTS, 500)) + 2
            spots.append(begin + np.linspace(0, 1, steps)[:, None] * (end - begin))
        spots.append(path)
    return np.vstack([np.empty((0, 2)), *spots])


def _place_names(ax: Axes) -> None:
    """Put each name where it is clear of what is drawn, of the edges and of other names, as near as it can be."""
    names = _names.get(ax, [])
    if not names:
        return
    point, inside, spots = _figure_of(ax).dpi / 72, ax.get_window_extent(), _drawn_spots(ax)
    points = np.array([name.xycoords.transform(name.xy) for name in names])  # type: ignore[union-attr]
    boxes = [_box_of(text) for text in ax.texts if text not in names and text.get_text()]
    spots = np.vstack([spots, points])
    for name, at in zip(names, points, strict=True):
        half = _box_of(name)[1]
        turns = np.array([(math.cos(turn), math.sin(turn)) for _, turn in _SIDES])
        near = np.array([[radius * point] for radius, _ in _SIDES])
        middles = at + near * turns + half * np.clip(1.5 * turns, -1, 1)
        away = np.abs(spots - middles[:, None]) - half
        room = np.linalg.norm(np.maximum(away, 0), axis=2).min(axis=1)
        for middle, other in boxes:
            gap = np.abs(middles - middle) - half - other - [_CLEAR * point, 0]  # two in a line are no sentence
            room = np.minimum(room, gap.max(axis=1))
        edges = np.hstack([middles - half - inside.min, inside.max - middles - half])
        room = np.minimum(room, edges.min(axis=1) + _CLEAR * point)
        best = max(range(len(_SIDES)), key=lambda k: (min(room[k], _CLEAR * point), -_SIDES[k][0], room[k]))
        name.set_position(tuple((middles[best] - at) / point))
        name.arrow_patch.set_visible(_SIDES[best][0] > _JOINED)  # type: ignore[union-attr]
        boxes.append((middles[best], half))


def _apart(wanted: Array, heights: Array) -> Array:
    """Return middles for boxes of such heights, in rising order, as near to the wanted ones as no two touch."""
    offsets = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2)])
    blocks: list[list[float]] = []
    for at in wanted - offsets:
        blocks.append([float(at)])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return np.concatenate([np.full(len(block), np.mean(block)) for block in blocks]) + offsets


def _name_ends(ax: Axes) -> bool:
    """Write the name of each line to the right of its end, if the axes have nothing but lines; else say no."""
    handles, labels = ax.get_legend_handles_labels()
    if not all(isinstance(handle, ErrorbarContainer) for handle in handles):
        return False
    for handle, words in zip(handles, labels, strict=True):
        line = handle.lines[0]  # type: ignore[attr-defined]
        ends = line.get_xydata()[np.isfinite(line.get_xydata()).all(axis=1)]
        look = {"color": line.get_color(), "linestyle": line.get_linestyle(), "linewidth": 0.8}
        name = ax.annotate(
            _wrapped(words, _NAME_LETTERS), ends[-1] if len(ends) else (0, 0), (_BESIDE, 0.5),
            textcoords="axes fraction", va="center", fontsize=9.5, color=INK, annotation_clip=False,
            arrowprops={**look, "arrowstyle": "-", "relpos": (0, 0.5), "shrinkB": 4},
        )  # fmt: skip
        name.arrow_patch.set_visible(len(ends) > 0)  # type: ignore[union-attr]
        _ends.setdefault(ax, []).append(name)
    return True


def _place_ends(ax: Axes) -> None:
    """Put each line's name at the height of its end, or as near as the others leave it."""
    names = sorted(_ends.get(ax, []), key=lambda name: float(ax.transData.transform(name.xy)[1]))
    if not names:
        return
    box = ax.get_window_extent()
    heights = np.array([2 * _box_of(name)[1][1] + _CLEAR for name in names])
    middles = _apart(np.array([ax.transData.transform(name.xy)[1] for name in names]), heights)
    middles += max(0.0, box.y0 - middles[0] + heights[0] / 2)
    middles -= max(0.0, middles[-1] + heights[-1] / 2 - box.y1)
    for name, middle in zip(names, middles, strict=True):
        name.set_position((_BESIDE, (middle - box.y0) / box.height))


def _has_categories(axis: Axis) -> bool:
    return isinstance(axis.get_major_formatter(), StrCategoryFormatter)


def _check_axis(ax: Axes, which: str, key: str) -> None:
    """Raise ValueError if the axis has no label, or a numeric axis has no unit in it."""
    axis: Axis = getattr(ax, f"{which}axis")
    if not (ax.axison and axis.get_visible()) or _has_categories(axis):  # categories name themselves
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
            f"not {figure.get_figwidth():g}: make it with tinytorch.report.subplots"
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


@contextmanager
def _kept(figure: Figure) -> Iterator[None]:
    """Put back what a layout changes of a figure: height, ticks, and the lines of its words."""
    height = figure.get_figheight()
    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    ticks = [(axis, axis.get_major_locator(), axis.get_major_formatter(), axis.get_label_text()) for axis in axes]
    named = [(text, text.get_text()) for legend in _legends(figure) for text in legend.get_texts()]
    try:
        yield
    finally:
        for ax in figure.axes:
            ax.set_title("")
            for name in _ends.pop(ax, []):
                name.remove()
        for legend in _legends(figure):
            legend.set_visible(True)
        figure.set_figheight(height)
        for axis, locator, formatter, label in ticks:
            axis.set_major_locator(locator)
            axis.set_major_formatter(formatter)
            axis.set_label_text(label)
        for text, words in named:
            text.set_text(words)


def _legends(figure: Figure) -> list[Legend]:
    return [*filter(None, (ax.get_legend() for ax in figure.axes)), *figure.legends]


def _wrapped(text: str, letters: float) -> str:
    """Return a line in several of at most so many letters; a formula or what is broken already stays."""
    if "\n" in text or "$" in text or len(text) <= letters:
        return text
    return textwrap.fill(text, max(int(letters), 8), break_long_words=False)


def _is_name(words: str) -> bool:
    """Return whether a tick's label is a name, not a number with or without its unit."""
    return re.match("[A-Za-z]", words) is not None


def _wrap_names(ax: Axes, layout: Layout) -> int:
    """Break long names of categories at the side of drawn axes into lines, and return the lines that this adds."""
    axis = ax.yaxis
    shown = [(tick.get_loc(), tick.label1.get_text()) for tick in axis.get_major_ticks()]
    if not _has_categories(axis) and not any(_is_name(words) for _, words in shown):
        return 0
    names = [_wrapped(words, layout.category) for _, words in shown]
    axis.set_major_locator(FixedLocator([at for at, _ in shown]))
    axis.set_major_formatter(FixedFormatter(names))
    return max(0, sum(name.count("\n") for name in names) - len(names))  # a bar has room for two lines


def _thin_ticks(axis: Axis, *, level: bool) -> bool:
    """Leave out labels of a drawn axis if some touch: of a logarithmic one all but decades, then each second.

    Returns whether any was left out, so that what is left is to be drawn and looked at again.
    """
    low, high = sorted(axis.get_view_interval())
    ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_text()]
    ticks = [tick for tick in ticks if tick.label1.get_visible()]  # of shared axes those at the edge
    boxes = [tick.label1.get_window_extent() for tick in ticks]
    ends = sorted((box.x0, box.x1) if level else (box.y0, box.y1) for box in boxes)
    if _has_categories(axis) or any(
        _is_name(tick.label1.get_text()) for tick in ticks
    ):  # which says what it is, and cannot be left out
        return False
    if not any(one[1] + _BETWEEN > other[0] for one, other in pairwise(ends)):
        return False
    locator = axis.get_major_locator()
    subs = getattr(locator, "_subs", None)  # an array, or a word
    if isinstance(locator, LogLocator) and subs is not None and len(subs) > 1:
        axis.set_major_locator(LogLocator(subs=(1,)))
        return True
    kept = sorted((tick.get_loc(), tick.label1.get_text()) for tick in ticks)[::2]
    axis.set_major_locator(FixedLocator([at for at, _ in kept]))
    axis.set_major_formatter(FixedFormatter([words for _, words in kept]))
    return True


def _place_legends(figure: Figure, layout: Layout) -> float:
    """Put names at lines, and other legends beside their axes, where there is room; else all above them.

    Returns the inches that this takes.
    """
    taken = 0.0
    for legend in _legends(figure):
        for text in legend.get_texts():
            text.set_text(_wrapped(text.get_text(), _NAME_LETTERS if layout is WIDE else 44 / legend._ncols))  # type: ignore[attr-defined]
    for ax in figure.axes:
        of_axes = ax.get_legend()
        if of_axes is None:
            continue
        legend, beside = of_axes, layout is WIDE
        legend.set_visible(not beside or not _name_ends(ax))
        legend.set_in_layout(beside and legend.get_visible())
        legend.set_loc("upper left" if beside else "lower left")
        if beside:
            legend.set_bbox_to_anchor((1.01, 1.0), ax.transAxes)
            continue
        # From the figure's left edge on, so that long names do not narrow the axes; an empty title keeps its room.
        legend.set_bbox_to_anchor((0.0, 1.0), blended_transform_factory(figure.transFigure, ax.transAxes))
        figure.draw_without_rendering()
        height = legend.get_window_extent().height / figure.dpi
        ax.set_title("\n".join(" " * math.ceil(height / _TITLE_LINE)), fontsize=10)
        taken += height
    return taken


@contextmanager
def laid_out(figure: Figure, layout: Layout) -> Iterator[Figure]:
    """Lay a figure out for one kind of screen, with everything that was drawn in it; as it was, afterwards."""
    with _kept(figure):
        height = figure.get_figheight()
        named = any(_has_categories(ax.yaxis) for ax in figure.axes)
        for legend in _legends(figure):
            legend.set_in_layout(legend in figure.legends)  # until it has its place
        figure.set_layout_engine("none")  # names and heights of words do not depend on it, and it takes long
        figure.set_size_inches(layout.width, height if named or layout is NARROW else height * _HIGHER)
        figure.draw_without_rendering()
        lines = sum(_wrap_names(ax, layout) for ax in figure.axes if ax.yaxis.get_visible())
        more = _place_legends(figure, layout) + lines * 0.17
        rows = max((place.get_gridspec().nrows for ax in figure.axes if (place := ax.get_subplotspec())), default=1)
        figure.set_figheight(figure.get_figheight() + more)
        for ax in figure.axes:
            ax.xaxis.set_label_text(_wrapped(ax.xaxis.get_label_text(), (layout.width - 0.8) / _LETTER))
            upright = (figure.get_figheight() - more) / rows - 0.5
            ax.yaxis.set_label_text(_wrapped(ax.yaxis.get_label_text(), upright / _LETTER))
        shown = [ax for ax in figure.axes if ax.axison]
        figure.set_layout_engine("constrained")
        for _ in range(_MOST_ROUNDS):
            figure.draw_without_rendering()
            thinned = [_thin_ticks(axis, level=axis is ax.xaxis) for ax in shown for axis in (ax.xaxis, ax.yaxis)]
            if not any(thinned):
                break
        for ax in shown:
            _place_names(ax)
            _place_ends(ax)
        yield figure


def both_layouts(figure: Figure, *, key: str, alt: str, bitmap: bool = False) -> tuple[str, bytes | None]:
    """Return the figure as two ``<svg>`` elements, of which the style sheet shows one; it stays as it was.

    Args:
        figure: what to draw.
        key: goes before each id.
        alt: what a reader who does not see the figure is told.
        bitmap: whether the wide one is to be returned as a PNG, too.
    """
    drawn, png = [], None
    for layout in (WIDE, NARROW):
        with laid_out(figure, layout):
            svg = page_svg(figure, key=key if layout is WIDE else f"{key}-{layout.name}", alt=alt, ink=INK)
            drawn.append(svg.replace("<svg ", f'<svg class="{layout.name}" ', 1))
            png = _bitmap(figure) if bitmap and layout is WIDE else png
    return "\n".join(drawn), png


def alt_of(figure: Figure, alt: str) -> str:
    """Return what a reader who does not see the figure is told: ``alt``, and what of it is not resolved."""
    missing = [
        series.label if at == series.label else f"{series.label} at {at if isinstance(at, str) else plain_number(at)}"
        for series in _drawn.get(figure, [])
        for at, one in zip(series.x, series.values, strict=True)
        if not is_resolved(as_measurement(one))
    ]
    return f"{alt.strip()} {NOT_RESOLVED.capitalize()}: {', '.join(missing)}." if missing else alt.strip()


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
