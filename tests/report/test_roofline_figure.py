"""The roofline as a figure: everything that was placed is in it, where it belongs, and readable."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings, placed, spread
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.roofline.placement import Placed, place
from tinytorch.report.figures import NARROW, WIDE, Layout, check_figure, laid_out, settle, to_body
from tinytorch.report.roofline_figure import roofline_figure

POINTS = [
    placed("one row", 1, 0.5),
    placed("some rows", 8, 0.4),
    placed("alike", 9, 0.4),
    placed("many rows", 999, 0.9),
]


def drawn(made: Ceilings) -> Figure:
    figure = roofline_figure(POINTS, made)
    settle(figure)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    return figure


@pytest.fixture(scope="module")
def figure() -> Figure:
    return drawn(made_ceilings(noise=0.05))


def test_it_passes_the_check_of_every_figure(figure: Figure) -> None:
    check_figure(figure, caption="A roofline.", alt="Four points below a roof.", key="roofline")


def test_every_point_is_there_with_its_interval(figure: Figure) -> None:
    series = to_body(figure, caption="c", alt="a", key="roofline")["series"]
    points = {one["label"]: one for one in series[2:]}
    assert list(points) == [f"{i} {one.name}" for i, one in enumerate(POINTS, start=1)]
    for one, point in zip(POINTS, points.values(), strict=True):
        assert point["x"] == [one.intensity.value]
        assert point["numbers"][0]["value"] == pytest.approx(one.attained.median)
        assert point["numbers"][0]["interval"]["low"] == pytest.approx(one.attained.interval.low)


def test_each_level_has_a_slope_that_ends_at_its_ridge_point(figure: Figure) -> None:
    (ax,) = figure.axes
    slopes = [line.get_xydata() for line in ax.lines if len(np.atleast_2d(line.get_xydata())) == 2]
    corners = {}
    for slope in slopes:
        (x0, y0), (x1, y1) = np.asarray(slope)
        if y1 > y0 > 0 and x0 < x1:
            corners[round(float(x1), 9)] = (math.log(y1 / y0) / math.log(x1 / x0), float(y1))
    for _, _, bandwidth in LEVELS:
        steepness, height = corners[round(PEAK / bandwidth, 9)]
        assert steepness == pytest.approx(1)
        assert height == pytest.approx(PEAK / 1e9)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("arithmetic intensity (FLOP/B)", "rate (GFLOP/s)")


def test_the_markers_on_the_flat_roofs_of_floats_and_integers_are_their_ridge_points() -> None:
    made = dataclasses.replace(made_ceilings(noise=0.05), int8_peak=spread(4 * PEAK, "OP/s", 0.05))
    series = to_body(roofline_figure(POINTS, made), caption="c", alt="a", key="roofline")["series"]
    for one, name, peak in zip(series, ("FP32", "INT8"), (PEAK, 4 * PEAK), strict=False):
        assert one["label"].startswith(f"{name} peak ")
        assert one["x"] == pytest.approx(sorted(peak / bandwidth for _, _, bandwidth in LEVELS))
        assert {number["value"] for number in one["numbers"]} == {peak}


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("close", [False, True])
def test_names_can_be_read_and_lie_apart(close: bool, integers: bool) -> None:
    near = [(name, None, 400e9 / (1 + 0.1 * k)) for k, (name, _, _) in enumerate(LEVELS)]  # nearly on one another
    made = made_ceilings(noise=0.05, levels=near if close else LEVELS)
    if integers:
        made = dataclasses.replace(made, int8_peak=spread(4 * PEAK, "OP/s", 0.05))
    figure = drawn(made)
    (ax,), (legend,) = figure.axes, figure.legends
    words: list[Text] = [*ax.texts, *legend.get_texts(), ax.xaxis.label, ax.yaxis.label]
    boxes = {text.get_text(): text.get_window_extent() for text in words}
    for name, _, _ in LEVELS:
        assert any(text.startswith(f"{name} ") and text.endswith("GB/s") for text in boxes)
    assert {"1", "2", "3", "4"} <= set(boxes)
    for (one, box), (other, second) in itertools.combinations(boxes.items(), 2):
        overlap = box.intersection(box, second)
        assert overlap is None or overlap.width * overlap.height < 2, f"{one!r} and {other!r} overlap"
    left = ax.get_window_extent().x0
    assert all(text.get_window_extent().x0 >= left for text in ax.texts), "a name lies on the axis"
    width, height = figure.canvas.get_width_height()
    for one, box in boxes.items():
        assert 0 <= box.x0 < box.x1 <= width, f"{one!r} is cut"
        assert 0 <= box.y0 < box.y1 <= height, f"{one!r} is cut"


#: Where points crowd: on a slope, on the flat roof, and beside one another.
CROWDED = [placed(f"{rows} rows, {share}", rows, share) for rows in (1, 2, 3, 48, 999) for share in (0.3, 0.98)]


@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda layout: layout.name)
@pytest.mark.parametrize("points", [POINTS, CROWDED], ids=["few", "crowded"])
def test_numbers_lie_beside_their_points_and_on_no_line(points: list[Placed], layout: Layout) -> None:
    made = dataclasses.replace(made_ceilings(noise=0.05), int8_peak=spread(4 * PEAK, "OP/s", 0.05))
    figure = roofline_figure(points, made)
    settle(figure)
    with laid_out(figure, layout):
        (ax,) = figure.axes
        drawn = [line.get_transform().transform(line.get_xydata()) for line in ax.lines]
        for bars in (one for one in ax.collections if isinstance(one, LineCollection)):
            drawn += [ax.transData.transform(segment) for segment in bars.get_segments()]
        spots = ax.transData.transform([(one.intensity.value, one.attained.median / 1e9) for one in points])
        numbers = [text for text in ax.texts if text.get_text().isdigit()]
        assert [text.get_text() for text in numbers] == [str(at) for at in range(1, len(points) + 1)]
        for number, text in enumerate(numbers):
            box = text.get_window_extent()
            middle, point = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]), figure.dpi / 72
            away = np.linalg.norm(spots - middle, axis=1) / point
            assert away[number] <= min(away) + 1, f"{text.get_text()} is nearer to another point"
            assert away[number] <= 20
            nearest = min(
                float(np.linalg.norm(middle - (start + share * (end - start)))) / point
                for path in drawn
                for start, end in itertools.pairwise(np.asarray(path, float))
                for share in np.linspace(0, 1, 400)
            )
            assert nearest >= 3.5, f"{text.get_text()} lies on a line"


def test_what_cannot_be_drawn_is_refused() -> None:
    made = made_ceilings()
    with pytest.raises(ValueError, match="point"):
        roofline_figure([], made)
    with pytest.raises(ValueError, match="variants"):
        roofline_figure(POINTS, made, variants=["mlp"])
    with pytest.raises(ValueError, match="must be a hue"):
        roofline_figure(POINTS, made, variants="mauve")
    with pytest.raises(ValueError, match="99"):
        roofline_figure(POINTS, made_ceilings(threads=99))
    table = Tensor(np.ones((9, 4), np.float32))
    with recording() as recorded:
        apply(ops.embedding, np.arange(5), table)
    lookup = place("lookup", recorded.profile.events, POINTS[0].seconds, made)
    with pytest.raises(ValueError, match="lookup"):
        roofline_figure([lookup], made)
