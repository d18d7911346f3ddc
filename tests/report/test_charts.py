"""Charts draw each row where its attributes say, with intervals, units and names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured
from tinytorch.report import arrows, bars, dots, histogram, lines
from tinytorch.report.colors import color
from tinytorch.report.figures import check_figure


@dataclass(frozen=True)
class Point:
    width: int
    kind: str
    time: Measurement
    law: Modelled
    stored: Counted
    model: str = "MLP"


def run(seconds: float) -> Measurement:
    return Measurement("a run", tuple(seconds * (1 + 0.025 * k) for k in (1, -3, 4, -1, 0, 3, -4, 2, -2)), "s")


ROWS = [
    Point(width, kind, run(width * factor), Modelled(width * 1e-3, "s", "time", "a law"), Counted(width, "B", "bytes"))
    for kind, factor in (("slow", 2e-3), ("fast", 1e-3))
    for width in (1, 2, 8)
]


def drawn(figure: Figure | Unmeasured) -> Figure:
    assert isinstance(figure, Figure)
    check_figure(figure, caption="c", alt="what it shows", key="k")
    return figure


def containers(figure: Figure) -> list[Any]:
    return list(figure.axes[0].containers)


def points(figure: Figure) -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Return positions and heights of each series of axes with error bars."""
    return [(np.asarray(one.lines[0].get_xdata()), np.asarray(one.lines[0].get_ydata())) for one in containers(figure)]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts if text.get_text()]


def test_lines_are_told_apart_by_an_attribute_and_start_at_zero() -> None:
    figure = drawn(lines(ROWS, x="width", y={"time": "", "law": "law"}, each="kind", xlabel="width", ylabel="time"))
    (ax,) = figure.axes
    assert ax.get_legend_handles_labels()[1] == ["slow", "slow, law", "fast", "fast, law"]
    assert np.allclose(points(figure)[0][1], [2, 4, 16])
    assert ax.get_ylim()[0] == 0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width (count)", "time (ms)")


def test_lines_of_one_row_are_told_apart_by_the_colours_of_their_words() -> None:
    looks, found = {"found": "rose", "law": "teal"}, {"time": "found", "law": "law"}
    figure = drawn(lines(ROWS[:3], x="width", y=found, variants=looks, xlabel="width", ylabel="time"))
    assert [one.lines[0].get_color() for one in containers(figure)] == [color(look) for look in looks.values()]


def test_logarithmic_axes_count_in_powers_of_two_where_all_positions_are() -> None:
    figure = drawn(lines(ROWS, x="width", y="time", each="kind", xlabel="width", ylabel="time", log="xy"))
    scale: Any = figure.axes[0].xaxis.get_transform()
    assert scale.base == 2
    assert figure.axes[0].get_yscale() == "log"
    wide = [{"at": at, "time": run(1.0)} for at in (1 / 12, 1.5625, 87.5, 156.25, 2**20)]
    (ax,) = drawn(lines(wide, x="at", y="time", xlabel="width", ylabel="time", log="x")).axes
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.0833", "1.56", "87.5", "156", "1,048,576"]
    with pytest.raises(ValueError, match="log must"):
        lines(ROWS, x="width", y="time", xlabel="w", ylabel="t", log="z")


def test_names_on_the_axis_make_a_slope_chart() -> None:
    figure = drawn(lines(ROWS[:3], x="kind", y="time", each="width", xlabel="way", ylabel="time"))
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["slow"]


@pytest.mark.parametrize(
    ("options", "label", "legends"),
    [
        ({"level": {"as fast": 1.0}}, ": time (ms)", [False, False]),
        ({"ylabel": ""}, " (ms)", [False, False]),
        ({"each": "kind"}, ": time (ms)", [True, True]),
        ({"y": {"time": "found", "law": "law"}}, ": time (ms)", [True, False]),
    ],
)
def test_panels_stand_below_one_another(options: dict[str, Any], label: str, legends: list[bool]) -> None:
    made: dict[str, Any] = {"y": "time", "xlabel": "width", "ylabel": "time"} | options
    figure = drawn(lines(ROWS, x="width", panels="kind", **made))
    assert [ax.get_ylabel() for ax in figure.axes] == [f"slow{label}", f"fast{label}"]
    assert names(figure) == [*options.get("level", {})]
    assert [bool(ax.get_legend()) for ax in figure.axes] == legends


def test_what_was_not_measured_leaves_a_gap_or_gives_no_chart() -> None:
    absent = Unmeasured("no second core")
    rows: list[Any] = [{"x": 1, "y": run(1e-3)}, {"x": 2, "y": absent}]
    figure = drawn(lines(rows, x="x", y="y", xlabel="x", ylabel="time"))
    assert len(points(figure)[0][0]) == 1
    assert lines(absent, x="x", y="y", xlabel="x", ylabel="y") is absent
    assert bars(absent, name="x", value="y", xlabel="x") is absent
    assert dots(absent, x="x", y="y", name="n", xlabel="x", ylabel="y") is absent
    assert arrows(absent, name="x", values={"y": "y"}) is absent
    assert histogram(absent, xlabel="x", ylabel="y", names=("median", "mean", "p99")) is absent


def test_dots_have_intervals_on_both_axes_and_names_beside_them() -> None:
    figure = drawn(dots(ROWS[::3], x="stored", y="time", name="kind", xlabel="bytes", ylabel="time", panels="model"))
    assert names(figure) == ["slow", "fast"]
    assert figure.axes[0].get_ylabel() == "MLP: time (ms)"
    assert all(one.has_xerr and one.has_yerr for one in containers(figure))


def test_a_stepped_line_joins_the_front_and_what_is_off_it_is_grey() -> None:
    places = ((1, 90, True), (2, 80, False), (3, 95, True), (4, 93, True))
    rows = [{"t": run(t * 1e-3), "right": Counted(r / 100, "%", "right"), "on": on, "n": str(t)} for t, r, on in places]
    figure = drawn(dots(rows, x="t", y="right", name="n", front="on", xlabel="time", ylabel="right", log="x"))
    looks = [to_rgba(one.lines[0].get_color()) for one in containers(figure)]
    assert looks == [to_rgba(color(look)) for look in ("measured", "baseline", "measured", "measured")]
    (edge,) = (line for line in figure.axes[0].lines if line.get_drawstyle() == "steps-post")
    assert np.asarray(edge.get_ydata()).tolist() == pytest.approx([90, 95, 95])


def test_a_step_begins_where_the_one_before_ends_and_the_axis_has_room_for_those_to_come() -> None:
    rows = {"plain": run(8e-3), "cached": run(4e-3), "compiled": run(1e-3)}
    beside = {"baseline": {"row": run(16e-3)}}
    charts = [
        drawn(arrows(rows, name="name", values={"row": "time"}, beside=beside, upto=upto, begin=begin))
        for upto, begin in ((2, None), (3, 10.0))
    ]
    made = [
        [(each.xyann[0], each.xy[0]) for each in chart.findobj(Annotation) if not each.get_text()] for chart in charts
    ]
    assert made == [[(8.0, 4.0)], [(10.0, 8.0), (8.0, 4.0), (4.0, 1.0)]]
    assert [*map(names, charts)] == [["÷2", "baseline"], ["÷2", "÷4", "baseline"]]
    assert len({chart.axes[0].get_xlim() for chart in charts}) == 1
    assert [text.get_text() for text in charts[1].axes[0].get_yticklabels()] == list(rows)
    looks = [one.lines[0].get_color() for one in containers(charts[1])]
    assert looks == [color(look) for look in ("measured", "measured", "highlight")]


def test_a_histogram_holds_all_samples_and_names_what_is_said_of_them() -> None:
    samples = tuple(1e-3 * (1 + k / 100) ** 2 for k in range(1000))
    measured, words = Measurement("a call", samples, "s"), ("median", "mean", "p99")
    for log in ("", "x"):
        figure = drawn(histogram(measured, xlabel="time", ylabel="calls", names=words, log=log))
        (ax,) = figure.axes
        assert sum(bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)) == len(samples)
        said = [text.xy[0] for text in ax.texts if isinstance(text, Annotation)]
        milliseconds = np.array(samples) * 1e3
        assert said[:2] == pytest.approx([np.median(milliseconds), np.mean(milliseconds)])
        assert said[2] == pytest.approx(np.percentile(milliseconds, 99), rel=0.01)


def test_values_of_different_units_share_no_axis() -> None:
    rows: list[Any] = [{"x": Counted(1, "B", "b"), "y": run(1)}, {"x": run(1), "y": run(1)}]
    with pytest.raises(ValueError, match="share"):
        lines(rows, x="x", y="y", xlabel="x", ylabel="y")


def test_values_by_name_are_rows_themselves_and_a_line_that_is_alone_needs_no_legend() -> None:
    figure = drawn(lines({1: run(2.0), 2: run(3.0)}, x="name", y={"row": "a call"}, xlabel="call", ylabel="time"))
    assert [each.tolist() for each in points(figure)[0]] == [[1, 2], [2, 3]]
    assert figure.axes[0].get_legend() is None


def test_a_series_that_is_named_as_a_variant_looks_like_it_unless_another_is_chosen() -> None:
    options: Any = {"rows": {name: run(1.0) for name in ("linear", "CNN", "mine")}, "name": "name", "value": "row"}
    looks: tuple[dict[str, str] | None, ...] = (None, {"linear": "rose"})
    figures = [drawn(bars(**options, variants=look, xlabel="time")) for look in looks]
    own, chosen = ([patch.get_edgecolor() for patch in figure.axes[0].patches] for figure in figures)
    assert own[:2] == [to_rgba(color("linear")), to_rgba(color("cnn"))]
    assert len(set(own)) == 3
    assert chosen[0] == to_rgba(color("rose"))
    with pytest.raises(ValueError, match="variants"):
        bars(**options, variants={"other": "rose"}, xlabel="time")
