"""Layouts of a figure: as wide as the column, and for a phone, each written as SVG that follows light and dark."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator
from matplotlib.transforms import blended_transform_factory

from tinytorch.report.figures import INK, WIDTH, has_categories, names

Array = npt.NDArray[np.float64]
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_PIXELS_PER_INCH = 96
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
#: What matplotlib puts into a style sheet for ``*``, which inline in a page would reach all of the page.
_ROOT_STYLE = "stroke-linejoin: round; stroke-linecap: butt"


def _bitmap(figure: Figure) -> bytes:
    """Return the figure as a PNG on white, twice as large as its words need, laid out as it is."""
    buffer = io.BytesIO()
    figure.set_layout_engine("none")  # it has been; else it would all be laid out once more
    figure.savefig(buffer, format="png", dpi=2 * _PIXELS_PER_INCH, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _rewrite(element: ET.Element, referenced: set[str], prefix: str) -> None:
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
            value = re.sub(r"font-family:[^;]*", "font-family: inherit", value)
            value = re.sub(rf"{INK}|#000000", "currentColor", value, flags=re.IGNORECASE)
            element.set(name, value.replace("url(#", f"url(#{prefix}"))


def page_svg(figure: Figure, *, key: str, alt: str) -> str:
    """Return the figure as an ``<svg>`` element: transparent, as wide as its place, the same for the same data.

    ``key`` goes before each id, and into the hash that matplotlib makes ids of.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": key, "path.simplify": True}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=_NO_METADATA)
    raw, prefix = buffer.getvalue(), f"figure-{key}-"
    root, referenced = ET.fromstring(raw), {*re.findall(r'(?:url\(|xlink:href=")#([^)"]+)', raw)}
    for element in list(root.iter()):
        _rewrite(element, referenced, prefix)
        for unwanted in [each for tag in ("metadata", "style") for each in element.findall(f"{{{_SVG}}}{tag}")]:
            element.remove(unwanted)
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
NARROW = Layout("narrow", WIDTH, 19)
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
#: Names at the ends of lines, while a layout has them.
_ends: WeakKeyDictionary[Axes, list[Annotation]] = WeakKeyDictionary()


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
    placed = names.get(ax, [])
    if not placed:
        return
    point, inside, spots = ax.figure.dpi / 72, ax.get_window_extent(), _drawn_spots(ax)
    points = np.array([name.xycoords.transform(name.xy) for name in placed])  # type: ignore[union-attr]
    boxes = [_box_of(text) for text in ax.texts if text not in placed and text.get_text()]
    spots = np.vstack([spots, points])
    for name, at in zip(placed, points, strict=True):
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
    if not has_categories(axis) and not any(_is_name(words) for _, words in shown):
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
    if has_categories(axis) or any(_is_name(tick.label1.get_text()) for tick in ticks):  # which says what it is
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
    beside = layout is WIDE
    for each in _legends(figure):
        for text in each.get_texts():
            text.set_text(_wrapped(text.get_text(), _NAME_LETTERS if beside else 44 / each._ncols))  # type: ignore[attr-defined]
    for ax in figure.axes:
        if (legend := ax.get_legend()) is None:
            continue
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
        named = any(has_categories(ax.yaxis) for ax in figure.axes)
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
    """Return the figure as two ``<svg>`` elements, of which the style sheet shows one, and the wide one as a PNG."""
    drawn, png = [], None
    for layout in (WIDE, NARROW):
        with laid_out(figure, layout):
            svg = page_svg(figure, key=key if layout is WIDE else f"{key}-{layout.name}", alt=alt)
            drawn.append(svg.replace("<svg ", f'<svg class="{layout.name}" ', 1))
            png = _bitmap(figure) if bitmap and layout is WIDE else png
    return "\n".join(drawn), png
