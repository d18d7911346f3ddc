"""The roofline as a figure: everything that was placed is in it, where it belongs, and readable."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.path import Path
from matplotlib.text import Text

from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings, placed, spread
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.roofline.placement import Placed, place
from tinytorch.report.figures import check_figure, settle, to_body
from tinytorch.report.layouts import NARROW, WIDE, Layout, laid_out
from tinytorch.report.roofline_figure import roofline_figure

POINTS = [
    placed("one row", 1, 0.5),
    placed("some rows", 8, 0.4),
    placed("alike", 9, 0.4),
    placed("many rows", 999, 0.9),
]


def test_each_level_has_a_slope_that_begins_near_the_first_point_and_ends_at_its_ridge_point() -> None:
    figure = roofline_figure(POINTS, made_ceilings(noise=0.05))
    check_figure(figure, caption="A roofline.", alt="Four points below a roof.", key="roofline")
    (ax,) = figure.axes
    low, high = ax.get_xlim()
    first = min(*(one.demand.intensity for one in POINTS), *(PEAK / bandwidth for _, _, bandwidth in LEVELS))
    assert math.log(first / low) < 0.3 * math.log(high / low)
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


@pytest.mark.parametrize("integers", [False, True])
def test_the_markers_on_the_flat_roofs_are_their_ridge_points_and_integers_have_one_where_some_ran(
    integers: bool,
) -> None:
    made = dataclasses.replace(made_ceilings(noise=0.05), int8_peak=spread(4 * PEAK, "OP/s", 0.05))
    demand = dataclasses.replace(POINTS[0].demand, integer=POINTS[0].demand.flops)
    shown = [*POINTS, *[dataclasses.replace(POINTS[0], demand=demand)] * integers]
    series = to_body(roofline_figure(shown, made), caption="c", alt="a", key="roofline")["series"]
    roofs = {"FP32": PEAK, "INT8": 4 * PEAK} if integers else {"FP32": PEAK}
    assert len(series) == len(roofs) + len(shown)
    for one, (name, peak) in zip(series, roofs.items(), strict=False):
        assert one["label"].startswith(f"{name} peak ")
        assert one["x"] == pytest.approx(sorted(peak / bandwidth for _, _, bandwidth in LEVELS))
        assert {number["value"] for number in one["numbers"]} == {peak}
    for point, one in zip(shown, series[len(roofs) :], strict=True):
        assert (one["label"], one["x"]) == (point.name, [point.intensity.value])
        assert one["numbers"][0]["value"] == pytest.approx(point.attained.median)
        assert one["numbers"][0]["interval"]["low"] == pytest.approx(point.attained.interval.low)


#: Where points crowd: on a slope, on the flat roof, and beside one another.
CROWDED = [placed(f"{rows} rows, {share}", rows, share, 0.015) for rows in (1, 2, 3, 48, 999) for share in (0.3, 0.98)]


@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda layout: layout.name)
@pytest.mark.parametrize("close", [False, True], ids=["apart", "close"])
@pytest.mark.parametrize("points", [POINTS, CROWDED], ids=["few", "crowded"])
def test_names_can_be_read_and_lie_on_no_line(points: list[Placed], close: bool, layout: Layout) -> None:
    near = [(name, size, 400e9 / (1 + 0.1 * k)) for k, (name, size, _) in enumerate(LEVELS)]  # nearly on one another
    made = made_ceilings(noise=0.015, levels=near if close else LEVELS)
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
    with recording() as recorded:
        apply(ops.embedding, np.arange(5), Tensor(np.ones((9, 4), np.float32)))
    lookup = place("lookup", recorded.profile.events, POINTS[0].seconds, made)
    for points, ceilings, word in (
        ([], made, "point"),
        (POINTS, made_ceilings(threads=99), "99"),
        ([lookup], made, "lookup"),
    ):
        with pytest.raises(ValueError, match=word):
            roofline_figure(points, ceilings)
