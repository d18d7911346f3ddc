"""The roofline as a figure: everything that was placed is in it, where it belongs, and readable."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.path import Path
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
    points = {one["label"]: one for one in series[1:]}
    assert list(points) == [one.name for one in POINTS]
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


def in_integers(one: Placed) -> Placed:
    return dataclasses.replace(one, demand=dataclasses.replace(one.demand, integer=one.demand.flops))


@pytest.mark.parametrize("integers", [False, True])
def test_the_markers_on_the_flat_roofs_are_their_ridge_points_and_integers_have_one_where_some_ran(
    integers: bool,
) -> None:
    made = dataclasses.replace(made_ceilings(noise=0.05), int8_peak=spread(4 * PEAK, "OP/s", 0.05))
    shown = [*POINTS, in_integers(POINTS[0])] if integers else POINTS
    series = to_body(roofline_figure(shown, made), caption="c", alt="a", key="roofline")["series"]
    roofs = {"FP32": PEAK, "INT8": 4 * PEAK} if integers else {"FP32": PEAK}
    assert len(series) == len(roofs) + len(shown)
    for one, (name, peak) in zip(series, roofs.items(), strict=False):
        assert one["label"].startswith(f"{name} peak ")
        assert one["x"] == pytest.approx(sorted(peak / bandwidth for _, _, bandwidth in LEVELS))
        assert {number["value"] for number in one["numbers"]} == {peak}


def test_the_slopes_begin_near_the_first_point(figure: Figure) -> None:
    (ax,) = figure.axes
    low, high = ax.get_xlim()
    first = min(*(one.demand.intensity for one in POINTS), *(PEAK / bandwidth for _, _, bandwidth in LEVELS))
    assert math.log(first / low) < 0.3 * math.log(high / low)


#: Where points crowd: on a slope, on the flat roof, and beside one another.
CROWDED = [placed(f"{rows} rows, {share}", rows, share) for rows in (1, 2, 3, 48, 999) for share in (0.3, 0.98)]


@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda layout: layout.name)
@pytest.mark.parametrize("close", [False, True], ids=["apart", "close"])
@pytest.mark.parametrize("points", [POINTS, CROWDED], ids=["few", "crowded"])
def test_names_can_be_read_and_lie_on_no_line(points: list[Placed], close: bool, layout: Layout) -> None:
    near = [(name, None, 400e9 / (1 + 0.1 * k)) for k, (name, _, _) in enumerate(LEVELS)]  # nearly on one another
    made = made_ceilings(noise=0.05, levels=near if close else LEVELS)
    figure = roofline_figure(points, made)
    settle(figure)
    with laid_out(figure, layout):
        (ax,) = figure.axes
        boxes = {text.get_text(): Text.get_window_extent(text) for text in (*ax.texts, ax.xaxis.label, ax.yaxis.label)}
        assert {*(name for name, _, _ in LEVELS), *(one.name for one in points)} < set(boxes)
        for (one, box), (other, second) in itertools.combinations(boxes.items(), 2):
            assert not box.overlaps(second), f"{one!r} and {other!r} overlap"
        inside = ax.get_window_extent()
        drawn = [line.get_transform().transform(line.get_xydata()) for line in ax.lines]
        for bars in (one for one in ax.collections if isinstance(one, LineCollection)):
            drawn += [ax.transData.transform(segment) for segment in bars.get_segments()]
        for name, box in ((text.get_text(), boxes[text.get_text()]) for text in ax.texts):
            assert inside.x0 <= box.x0 < box.x1 <= inside.x1, f"{name} leaves the axes"
            assert inside.y0 <= box.y0 < box.y1 <= inside.y1, f"{name} leaves the axes"
            assert not any(Path(path).intersects_bbox(box, filled=False) for path in drawn), f"{name} lies on a line"


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
