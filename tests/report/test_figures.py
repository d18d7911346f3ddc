"""Figures: what is refused, and the SVG as a parser reads it."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report.colors import color
from tinytorch.report.figures import (
    INK,
    NARROW,
    WIDE,
    Layout,
    alt_of,
    both_layouts,
    check_figure,
    draw_bars,
    draw_line,
    laid_out,
    page_svg,
    settle,
    subplots,
    to_body,
)

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
    return ET.fromstring(page_svg(figure, key=key, alt=ALT, ink=INK))


@pytest.fixture(scope="module")
def root() -> ET.Element:
    return drawn(two_bars())


def test_it_follows_the_page(root: ET.Element) -> None:
    text = ET.tostring(root, encoding="unicode")
    assert "currentColor" in text
    assert INK not in text
    assert "#000000" not in text
    assert "font-family: inherit" in text
    assert root.get("viewBox")
    assert root.get("width") is None


def test_it_says_what_it_shows(root: ET.Element) -> None:
    assert root.get("role") == "img"
    described = root.find(f"{SVG}desc")
    assert described is not None
    assert described.text == ALT
    assert root.get("aria-labelledby") == described.get("id")


def test_its_ids_are_its_own_and_all_references_resolve(root: ET.Element) -> None:
    other = drawn(two_bars(), "other")
    ids = [{element.get("id") for element in tree.iter() if element.get("id")} for tree in (root, other)]
    assert ids[0].isdisjoint(ids[1])
    text = ET.tostring(root, encoding="unicode")
    assert set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", text))
    for pair in re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", text):
        assert (pair[0] or pair[1]) in ids[0]


def test_nothing_in_it_reaches_the_page(root: ET.Element) -> None:
    assert root.find(f".//{SVG}style") is None
    assert root.find(f".//{SVG}metadata") is None


def test_words_stay_words_and_are_large_enough(root: ET.Element) -> None:
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert "latency (ms)" in words
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", ET.tostring(root, encoding="unicode"))]
    assert min(sizes) >= 9


def test_variants_have_their_colours_and_bars_their_errors(root: ET.Element) -> None:
    text = ET.tostring(root, encoding="unicode")
    assert color("numpy") in text
    assert color("compiled") in text
    body = to_body(two_bars(), caption="c", alt=ALT, key="two")
    assert [series["numbers"][0]["interval"] is not None for series in body["series"]] == [True, True]


PROGRAM = """
from tinytorch.report.figures import INK, page_svg
from test_figures import two_bars
print(page_svg(two_bars(), key="two", alt="alt", ink=INK))
"""


def test_the_same_data_gives_the_same_bytes_in_another_process() -> None:
    folder = re.sub(r"/test_figures\.py$", "", __file__)
    # Strings hash otherwise there than here, where nobody chose the seed.
    other = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1"},
    ).stdout
    assert len(other) > 1000
    assert other == page_svg(two_bars(), key="two", alt="alt", ink=INK) + "\n"


@pytest.mark.parametrize(
    ("caption", "alt", "message"),
    [
        ("", ALT, "caption"),
        ("A caption.", " ", "alt"),
        ("The same.", "The same.", "neither its caption"),
        ("A caption.", "_images/two.svg", "file's name"),
    ],
)
def test_words_that_say_nothing_are_refused(caption: str, alt: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_figure(two_bars(), caption=caption, alt=alt, key="two")


def refused(figure: Figure) -> str:
    with pytest.raises(ValueError, match="two") as error:
        check_figure(figure, caption="A caption.", alt=ALT, key="two")
    return str(error.value)


def test_an_axis_without_label_or_unit_is_refused() -> None:
    figure, axes = subplots()
    axes.plot([1, 2], [1, 2])
    assert "x axis" in refused(figure)
    axes.set_xlabel("length")
    assert "must name its unit" in refused(figure)
    axes.set_xlabel("length (tokens)")
    assert "y axis" in refused(figure)
    axes.set_ylabel("ratio, unitless")
    check_figure(figure, caption="A caption.", alt=ALT, key="two")


def test_a_count_is_drawn_without_a_unit() -> None:
    figure, axes = subplots()
    axes.plot([1, 2], [1, 2])
    axes.set_xlabel("rows (unitless)")
    axes.set_ylabel("ratio, unitless")
    check_figure(figure, caption="A caption.", alt=ALT, key="two")
    settle(figure)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rows", "ratio")
    axes.set_xlabel("time (ms)")
    settle(figure)
    assert axes.get_xlabel() == "time (ms)"


def test_categories_name_themselves() -> None:
    figure = two_bars()
    figure.axes[0].set_ylabel("")
    check_figure(figure, caption="A caption.", alt=ALT, key="two")
    figure.axes[0].set_xlabel("")
    assert "x axis" in refused(figure)


def test_axes_that_share_a_label_have_one() -> None:
    figure, axes = subplots(2, 1, sharex=True)
    for ax in axes:
        ax.plot([1, 2], [1, 2])
        ax.set_ylabel("latency (ms)")
    axes[1].set_xlabel("batch (samples)")
    check_figure(figure, caption="A caption.", alt=ALT, key="two")


def test_a_title_inside_is_refused() -> None:
    figure = two_bars()
    figure.axes[0].set_title("Two bars")
    assert "title" in refused(figure)
    figure = two_bars()
    figure.suptitle("Two bars")
    assert "title" in refused(figure)


def test_what_a_phone_cannot_show_is_refused() -> None:
    assert "inches" in refused(Figure(figsize=(7, 3)))
    figure = two_bars()
    figure.axes[0].annotate("small", (0, 0), fontsize=6)
    assert "points" in refused(figure)


def test_series_must_fit_each_other() -> None:
    _, axes = subplots()
    with pytest.raises(ValueError, match="labels"):
        draw_bars(axes, ["a", "b"], [run(1.0)], quantity="latency", variants="numpy")
    with pytest.raises(ValueError, match="one unit"):
        draw_bars(axes, ["a", "b"], [run(1.0), run(1.0, unit="B")], quantity="latency", variants="numpy")
    with pytest.raises(ValueError, match="variant"):
        draw_line(axes, [1], [run(1.0)], quantity="latency", variant="mauve")


def test_lines_on_one_axis_share_its_unit() -> None:
    _, axes = subplots()
    draw_line(axes, [1, 2], [run(1e-3), run(2e-3)], quantity="latency", variant="numpy")
    draw_line(axes, [1, 2], [run(1e-6), run(2e-6)], quantity="latency", variant="compiled")
    assert axes.get_ylabel() == "latency (ms)"
    assert axes.containers[1].lines[0].get_ydata() == pytest.approx([1e-3, 2e-3])
    with pytest.raises(ValueError, match="must be in 's'"):
        draw_line(axes, [1], [run(1.0, unit="B")], quantity="size", variant="cached")


def unknown(median: float) -> Statistic:
    return Statistic("run", (median,) * 3, "s", value=median, bounds=Interval(0.0, math.inf, math.nan))


def test_no_bar_stands_for_an_interval_wider_than_its_value_and_words_for_what_is_not_resolved() -> None:
    figure, axes = subplots()
    wide = Statistic("run", (1e-3, 2e-3), "s", value=2e-3, bounds=Interval(0.9e-3, 9e-3, 0.95))
    labels = ["sure", "wide", "lost"]
    draw_bars(axes, labels, [run(1e-3), wide, unknown(5e-3)], quantity="latency", variants="numpy")
    assert [patch.get_width() for patch in axes.patches] == pytest.approx([1.0, 0.0, 0.0])
    segments = [segment for segment in axes.collections[-1].get_segments() if len(segment)]
    drawn_ends = [tuple(segment[:, 0]) for segment in segments if not any(map(math.isnan, segment[:, 0]))]
    assert drawn_ends[1] == pytest.approx((0.9, 9.0))
    assert len(drawn_ends) == 2
    (said,) = (text for text in axes.texts if "not resolved" in text.get_text())
    assert isinstance(said, Annotation)
    assert said.xy == (0.0, 2.0)
    assert alt_of(figure, ALT) == f"{ALT} Not resolved: lost."
    check_figure(figure, caption="A caption.", alt=ALT, key="two")
    axes.set_xscale("log")
    assert "not resolved" in drawn_words(figure)


def drawn_words(figure: Figure) -> str:
    return " ".join(element.text or "" for element in drawn(figure).iter(f"{SVG}text"))


def test_a_line_has_a_gap_where_nothing_is_known_and_no_marker_where_the_interval_is_wider_than_its_value() -> None:
    figure, axes = subplots()
    wide = Statistic("run", (1e-3, 2e-3), "s", value=2e-3, bounds=Interval(0.9e-3, 9e-3, 0.95))
    made = [run(1e-3), wide, unknown(5e-3)]
    draw_line(axes, [1, 2, 64], made, quantity="latency", variant="numpy")
    (data, _, (whiskers,)) = axes.containers[0].lines
    assert math.isnan(data.get_ydata()[2])
    assert data.get_markevery() == [True, False, False]
    ends = [segment for segment in whiskers.get_segments() if len(segment) and np.isfinite(segment).all()]
    assert len(ends) == 2
    assert max(segment[:, 1].max() for segment in ends) == pytest.approx(9.0)
    assert axes.get_legend_handles_labels()[1] == ["numpy, not resolved at 64"]
    assert alt_of(figure, f" {ALT} ") == f"{ALT} Not resolved: numpy at 64."
    drawn(figure)


def test_an_error_bar_ends_where_the_interval_does() -> None:
    _, axes = subplots()
    measurement = run(1e-3)
    draw_line(axes, [1], [measurement], quantity="latency", variant="numpy")
    (segment,) = axes.containers[0].lines[2][0].get_segments()
    assert segment[:, 1] * 1e-3 == pytest.approx([measurement.interval.low, measurement.interval.high])


def test_logarithmic_ticks_are_plain_numbers() -> None:
    figure, axes = subplots()
    draw_line(axes, [1, 1024], [run(1e-3), run(1.0)], quantity="latency", variant="numpy")
    axes.set_yscale("log")
    settle(figure)
    figure.canvas.draw()
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert "0.01" in labels
    assert not any("$" in label for label in labels)


def test_the_style_stays_in_the_figure() -> None:
    before = dict(mpl.rcParams)
    subplots()
    assert dict(mpl.rcParams) == before


def two_lines() -> Figure:
    figure, axes = subplots()
    for name, factor in (("numpy", 1.0), ("compiled", 0.5)):
        times = [run(factor * 1e-3 * 3**k) for k in range(6)]
        words = f"{name}, a product of the weights with all inputs of a batch"
        draw_line(
            axes,
            [10**k for k in range(6)],
            times,
            quantity="latency of one call of the whole model",
            variant=name,
            label=words,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("length of the sequence (tokens)")
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
    ids = [{element.get("id") for element in root.iter() if element.get("id")} for root in roots]
    assert ids[0].isdisjoint(ids[1])
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
        assert [text.get_text() for text in sorted(axes.texts, key=lambda text: text.get_position()[1])] == sorted(
            ends, key=lambda name: ends[name]
        )
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


def legend_words(figure: Figure) -> list[str]:
    legend = figure.axes[0].get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_a_layout_leaves_the_figure_as_it_was() -> None:
    figure = two_lines()
    words = legend_words(figure)
    with laid_out(figure, NARROW):
        assert legend_words(figure) != words
    assert legend_words(figure) == words
    assert figure.axes[0].get_title() == ""
    again, fresh = (both_layouts(one, key="two", alt=ALT)[0] for one in (figure, two_lines()))
    assert re.findall("<text.*?</text>", re.sub(r"[\d.]+", "", again)) == re.findall(
        "<text.*?</text>", re.sub(r"[\d.]+", "", fresh)
    )
