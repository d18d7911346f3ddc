"""Figures: what is refused, and the SVG as a parser reads it."""

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, check_figure, draw_bars, draw_line, settle, subplots
from tinytorch.report.layouts import NARROW, WIDE, Layout, both_layouts, laid_out, page_svg

ALT = "Two bars; the first is twice as long."
SVG = "{http://www.w3.org/2000/svg}"


def run(median: float, name: str = "run", unit: str = "s") -> Measurement:
    return Measurement(name, tuple(median * (1 + 0.01 * k) for k in range(-4, 5)), unit)


def two_bars() -> Figure:
    figure, axes = subplots()
    draw_bars(axes, ["plain", "compiled"], [run(2e-3), run(1e-3)], quantity="latency", variants=["numpy", "compiled"])
    axes.set_ylabel("implementation")
    return figure


def drawn(figure: Figure, key: str = "two") -> ET.Element:
    return ET.fromstring(page_svg(figure, key=key, alt=ALT))


def test_it_follows_the_page_says_what_it_shows_and_reaches_nothing_else() -> None:
    before = dict(mpl.rcParams)
    root = drawn(two_bars())
    assert dict(mpl.rcParams) == before
    text = ET.tostring(root, encoding="unicode")
    assert all(each in text for each in ("currentColor", "font-family: inherit", color("numpy"), color("compiled")))
    assert not any(each in text for each in (INK, "#000000", "<style", "<metadata", "ns0:style", "ns0:metadata"))
    assert (bool(root.get("viewBox")), root.get("width"), root.get("role")) == (True, None, "img")
    described = root.find(f"{SVG}desc")
    assert described is not None
    assert (described.text, described.get("id")) == (ALT, root.get("aria-labelledby"))
    assert "latency (ms)" in [element.text for element in root.iter(f"{SVG}text")]
    assert min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)) >= 9


def ids_of(tree: ET.Element) -> set[str | None]:
    return {element.get("id") for element in tree.iter() if element.get("id")}


def test_its_ids_are_its_own_and_all_references_resolve() -> None:
    root = drawn(two_bars())
    assert ids_of(root).isdisjoint(ids_of(drawn(two_bars(), "other")))
    referred = re.findall(r"(?:url\(|href=\")#([^)\"]+)", ET.tostring(root, encoding="unicode"))
    assert referred
    assert set(referred) <= ids_of(root)


PROGRAM = """
from tinytorch.report.layouts import page_svg
from test_figures import two_bars
print(page_svg(two_bars(), key="two", alt="alt"))
"""


def test_the_same_data_gives_the_same_bytes_in_another_process() -> None:
    # Strings hash otherwise there than here, where nobody chose the seed.
    options: dict[str, Any] = {"cwd": Path(__file__).parent, "env": {"PYTHONHASHSEED": "1"}, "text": True}
    other = subprocess.check_output([sys.executable, "-c", PROGRAM], **options)
    assert len(other) > 1000
    assert other == page_svg(two_bars(), key="two", alt="alt") + "\n"


FINE: dict[str, Any] = {"xlabel": "length (tokens)", "ylabel": "ratio, unitless"}


@pytest.mark.parametrize(
    ("labels", "words", "message"),
    [
        ({"ylabel": "ratio, unitless"}, {}, "x axis"),
        (FINE | {"xlabel": "length"}, {}, "must name its unit"),
        ({"xlabel": "length (tokens)"}, {}, "y axis"),
        (FINE | {"title": "Two bars"}, {}, "title"),
        (FINE, {"caption": ""}, "caption"),
        (FINE, {"alt": " "}, "alt"),
        (FINE, {"caption": ALT}, "neither its caption"),
        (FINE, {"alt": "_images/two.svg"}, "file's name"),
    ],
)
def test_what_a_reader_cannot_read_is_refused(labels: dict[str, Any], words: dict[str, str], message: str) -> None:
    figure, axes = subplots()
    axes.set(**labels)
    with pytest.raises(ValueError, match=message):
        check_figure(figure, key="two", **{"caption": "A caption.", "alt": ALT} | words)


def test_a_title_of_all_small_words_and_what_is_wider_than_a_phone_are_refused() -> None:
    titled, small = two_bars(), two_bars()
    titled.suptitle("Two bars")
    small.axes[0].annotate("small", (0, 0), fontsize=6)
    for figure, message in ((titled, "title"), (small, "points"), (Figure(figsize=(7, 3)), "inches")):
        with pytest.raises(ValueError, match=message):
            check_figure(figure, caption="A caption.", alt=ALT, key="two")


def test_categories_name_themselves_and_axes_that_share_a_label_have_one() -> None:
    bars = two_bars()
    bars.axes[0].set_ylabel("")
    shared, axes = subplots(2, 1, sharex=True)
    for ax in axes:
        ax.set_ylabel("latency (ms)")
    axes[1].set_xlabel("batch (samples)")
    for figure in (bars, shared):
        check_figure(figure, caption="A caption.", alt=ALT, key="two")


def test_a_count_is_drawn_without_a_unit() -> None:
    figure, axes = subplots()
    axes.set(xlabel="rows (unitless)", ylabel="ratio, unitless")
    settle(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rows", "ratio")
    axes.set_xlabel("time (ms)")
    settle(figure)
    assert axes.get_xlabel() == "time (ms)"


def test_lines_on_one_axis_share_its_unit() -> None:
    _, axes = subplots()
    draw_line(axes, [1, 2], [run(1e-3), run(2e-3)], quantity="latency", variant="numpy")
    draw_line(axes, [1, 2], [run(1e-6), run(2e-6)], quantity="latency", variant="compiled")
    assert axes.get_ylabel() == "latency (ms)"
    assert axes.containers[1].lines[0].get_ydata() == pytest.approx([1e-3, 2e-3])
    interval = run(2e-6).interval
    ends = axes.containers[1].lines[2][0].get_segments()[1][:, 1]
    assert ends * 1e-3 == pytest.approx([interval.low, interval.high])
    with pytest.raises(ValueError, match="must be in 's'"):
        draw_line(axes, [1], [run(1.0, unit="B")], quantity="size", variant="cached")
    with pytest.raises(ValueError, match="variant"):
        draw_line(axes, [1], [run(1.0)], quantity="latency", variant="mauve")
    for values, message in (([run(1.0)], "labels"), ([run(1.0), run(1.0, unit="B")], "one unit")):
        with pytest.raises(ValueError, match=message):
            draw_bars(axes, ["a", "b"], values, quantity="latency", variants="numpy")


WIDE_RUN = Measurement("run", (1e-3, 2e-3), "s", law=Stated(2e-3, 0.9e-3, 9e-3))
ONCE = Measurement("run", (5e-3,), "s")


def test_a_hollow_mark_stands_for_a_bar_with_an_interval_wider_than_its_value() -> None:
    figure, axes = subplots()
    labels = ["sure", "wide", "once"]
    draw_bars(axes, labels, [run(1e-3), WIDE_RUN, ONCE], quantity="latency", variants="numpy")
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([1.0, 0.0, 5.0])
    segments = [each[:, 0] for each in axes.collections[-1].get_segments() if len(each) and np.isfinite(each).all()]
    assert [*map(list, segments)][1:] == [pytest.approx([0.9, 9.0]), pytest.approx([5.0, 5.0])]
    (mark,) = (line for line in axes.lines if line.get_marker() == "o")
    assert (mark.get_xdata(), mark.get_markerfacecolor()) == ([pytest.approx(2.0)], "none")
    check_figure(figure, caption="A caption.", alt=ALT, key="two")


def test_a_mark_is_hollow_and_the_axis_keeps_its_range_where_an_interval_is_wider_than_its_value() -> None:
    _, axes = subplots()
    draw_line(axes, [1, 2, 64], [run(1e-3), WIDE_RUN, ONCE], quantity="latency", variant="numpy")
    (data, _, _) = axes.containers[0].lines
    assert data.get_ydata() == pytest.approx([1.0, 2.0, 5.0])
    assert data.get_markevery() == [True, False, True]
    (hollow,) = (line for line in axes.lines if line.get_markerfacecolor() == "none")
    assert hollow.get_xydata() == pytest.approx(np.array([[2.0, 2.0]]))
    assert axes.collections[0].get_segments() == [pytest.approx(np.array([[2.0, 0.9], [2.0, 9.0]]))]
    assert axes.get_ylim()[1] < 6


def test_logarithmic_ticks_are_plain_numbers() -> None:
    figure, axes = subplots()
    draw_line(axes, [1, 1024], [run(1e-3), run(1.0)], quantity="latency", variant="numpy")
    axes.set_yscale("log")
    settle(figure)
    figure.canvas.draw()
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert "0.01" in labels
    assert not any("$" in label for label in labels)


def two_lines() -> Figure:
    figure, axes = subplots()
    for name, factor in (("numpy", 1.0), ("compiled", 0.5)):
        times = [run(factor * 1e-3 * 3**k) for k in range(6)]
        label, quantity = f"{name}, a product of the weights with all inputs", "latency of one call of the whole model"
        draw_line(axes, [10**k for k in range(6)], times, quantity=quantity, variant=name, label=label)
    axes.set(xscale="log", yscale="log", xlabel="length of the sequence (tokens)")
    axes.legend()
    settle(figure)
    return figure


def long_names() -> Figure:
    figure, axes = subplots(height=2.0)
    names = ["attention: NumPy to compiled kernel", "plain", "a layer with a name that no phone has room for"]
    draw_bars(axes, names, [run(1e-3 * k) for k in (1, 2, 3)], quantity="latency", variants="numpy")
    settle(figure)
    return figure


def test_a_page_gets_a_figure_for_a_desk_and_one_for_a_phone_with_ids_of_their_own() -> None:
    drawn, png = both_layouts(two_lines(), key="two", alt=ALT)
    assert png is None
    pair = drawn.splitlines()
    roots = [ET.fromstring(svg) for svg in pair]
    assert [root.get("class") for root in roots] == ["wide", "narrow"]
    assert ids_of(roots[0]).isdisjoint(ids_of(roots[1]))
    assert {root.get("aria-labelledby") for root in roots} == {"figure-two-alt", "figure-two-narrow-alt"}


@pytest.mark.parametrize(("layout", "pixels", "least", "most"), [(WIDE, 672, 14, 15.1), (NARROW, 358, 11, 13)])
def test_words_have_the_size_of_the_text_around_them(layout: Layout, pixels: int, least: int, most: int) -> None:
    with laid_out(two_lines(), layout) as figure:
        root = drawn(figure)
    width = float((root.get("viewBox") or "").split()[2])
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", ET.tostring(root, encoding="unicode"))]
    assert sizes
    assert all(least <= size * pixels / width <= most for size in sizes)


@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda layout: layout.name)
@pytest.mark.parametrize("make", [two_lines, long_names])
def test_nothing_leaves_a_layout_and_no_two_labels_touch(make: Callable[[], Figure], layout: Layout) -> None:
    with laid_out(make(), layout) as figure:
        figure.draw_without_rendering()
        (ax,) = figure.axes
        ends: dict[str, list[Bbox]] = {"x": [], "y": []}
        for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
            low, high = sorted(axis.get_view_interval())
            ticks = (tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)
            ends[name] = [tick.label1.get_window_extent() for tick in ticks]
        legend = found if (found := ax.get_legend()) and found.get_visible() else None
        labels = [label for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text()]
        parts = [*labels, *([legend] if legend else [])]
        boxes = [*ends["x"], *ends["y"], *(part.get_window_extent() for part in parts)]
        assert all(box.x0 >= -1 and box.x1 <= figure.bbox.width + 1 for box in boxes)
        assert all(box.y0 >= -1 and box.y1 <= figure.bbox.height + 1 for box in boxes)
        assert all(one.x1 < other.x0 for one, other in pairwise(sorted(ends["x"], key=lambda box: box.x0)))
        assert all(one.y1 < other.y0 for one, other in pairwise(sorted(ends["y"], key=lambda box: box.y0)))
        inside = ax.get_window_extent()
        if legend is not None:
            assert layout is NARROW
            assert legend.get_window_extent().y0 >= inside.y1
        names = sorted((Text.get_window_extent(name) for name in ax.texts), key=lambda box: box.y0)
        assert all(box.x0 >= inside.x1 and box.x1 <= figure.bbox.width + 1 for box in names)
        assert all(one.y1 <= other.y0 for one, other in pairwise(names))
        assert ax.get_window_extent().width > 0.35 * figure.bbox.width


def test_lines_that_end_at_one_height_have_their_names_in_order_one_above_the_other() -> None:
    figure, axes = subplots()
    ends = {"third": 3.0, "first": 1.0, "second": 1.01}
    for name, end in ends.items():
        draw_line(axes, [1, 2], [run(2.0), run(end)], quantity="latency", variant="numpy", label=name)
    axes.set_xlabel("rows (count)")
    axes.legend()
    with laid_out(figure, WIDE):
        assert not axes.get_legend().get_visible()
        placed = sorted(axes.texts, key=lambda text: text.get_position()[1])
        assert [text.get_text() for text in placed] == ["first", "second", "third"]
    assert (len(axes.texts), axes.get_legend().get_visible()) == (0, True)
    with laid_out(figure, NARROW):
        assert (len(axes.texts), axes.get_legend().get_visible()) == (0, True)


def test_between_decades_whose_labels_touch_none_is_named() -> None:
    figure, places = subplots(1, 4)
    for axes in places:
        axes.plot([1, 60], [1, 2])
        axes.set_xscale("log")
    settle(figure)
    with laid_out(figure, NARROW) as narrow:
        narrow.draw_without_rendering()
        axis = narrow.axes[0].xaxis
        words = [tick.label1.get_text() for tick in axis.get_major_ticks()]
        assert len(words) > 1
        assert all(set(word) <= set("01.,") for word in words)


def test_a_layout_leaves_the_figure_as_it_was() -> None:
    figure = two_lines()
    before = both_layouts(two_lines(), key="two", alt=ALT)[0]
    with laid_out(figure, NARROW):
        assert figure.axes[0].get_title()
    assert not figure.axes[0].get_title()
    after = both_layouts(figure, key="two", alt=ALT)[0]
    words = [re.findall("<text.*?</text>", re.sub(r"[\d.]+", "", svg)) for svg in (before, after)]
    assert words[0] == words[1]
