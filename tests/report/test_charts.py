"""Charts draw each row where its attributes say, with intervals, units and names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured
from tinytorch.report import bars, distribution, dots, dumbbell, lines
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
    return Measurement("a run", tuple(seconds * each for each in np.linspace(0.9, 1.1, 9)), "s")


ROWS = [
    Point(width, kind, run(width * factor), Modelled(width * 1e-3, "s", "time", "a law"), Counted(width, "B", "bytes"))
    for kind, factor in (("slow", 2e-3), ("fast", 1e-3))
    for width in (1, 2, 8)
]


def drawn(figure: Figure | Unmeasured) -> Figure:
    assert isinstance(figure, Figure)
    check_figure(figure, caption="c", alt="what it shows", key="k")
    return figure


def points(figure: Figure, at: int = 0) -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Return positions and heights of each series of axes with error bars."""
    containers: list[Any] = list(figure.axes[at].containers)
    return [(np.asarray(one.lines[0].get_xdata()), np.asarray(one.lines[0].get_ydata())) for one in containers]


def legend(figure: Figure, at: int = 0) -> list[str]:
    return [str(label) for label in figure.axes[at].get_legend_handles_labels()[1]]


def test_lines_are_told_apart_by_an_attribute_and_start_at_zero() -> None:
    figure = drawn(lines(ROWS, x="width", y={"time": "", "law": "law"}, each="kind", xlabel="width", ylabel="time"))
    assert legend(figure) == ["slow", "slow, law", "fast", "fast, law"]
    (ax,) = figure.axes
    assert np.allclose(points(figure)[0][1], [2, 4, 16])
    assert ax.get_ylim()[0] == 0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width (count)", "time (ms)")


def test_lines_of_one_row_are_told_apart_by_the_colours_of_their_words() -> None:
    looks = {"found": "rose", "law": "teal"}
    found = {"time": "found", "law": "law"}
    figure = drawn(lines(ROWS[:3], x="width", y=found, variants=looks, xlabel="width", ylabel="time"))
    drawn_in: list[Any] = [one.lines[0].get_color() for one in figure.axes[0].containers]  # type: ignore[attr-defined]
    assert [*map(to_rgba, drawn_in)] == [to_rgba(color(look)) for look in looks.values()]


def test_logarithmic_axes_count_in_powers_of_two_where_all_positions_are() -> None:
    figure = drawn(lines(ROWS, x="width", y="time", each="kind", xlabel="width", ylabel="time", log="xy"))
    scale: Any = figure.axes[0].xaxis.get_transform()
    assert scale.base == 2
    assert figure.axes[0].get_yscale() == "log"
    wide = [{"at": at, "time": run(1.0)} for at in (1, 2**20)]
    (ax,) = drawn(lines(wide, x="at", y="time", xlabel="width", ylabel="time", log="x")).axes
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "1,048,576"]
    with pytest.raises(ValueError, match="log must"):
        lines(ROWS, x="width", y="time", xlabel="w", ylabel="t", log="z")


def test_names_on_the_axis_make_a_slope_chart() -> None:
    figure = drawn(lines(ROWS[:3], x="kind", y="time", each="width", xlabel="way", ylabel="time"))
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["slow"]


def test_panels_stand_below_one_another_and_marks_have_names() -> None:
    figure = drawn(
        lines(ROWS, x="width", y="time", panels="kind", xlabel="width", ylabel="time", level={"as fast": 1.0})
    )
    assert [ax.get_ylabel() for ax in figure.axes] == ["slow: time (ms)", "fast: time (ms)"]
    assert "as fast" in legend(figure)
    different = drawn(lines(ROWS, x="width", y="time", panels="kind", xlabel="width", ylabel=""))
    assert [ax.get_ylabel() for ax in different.axes] == ["slow (ms)", "fast (ms)"]
    lone = drawn(lines(ROWS, x="width", y="time", panels="kind", each="kind", xlabel="width", ylabel="time"))
    alike = drawn(
        lines(ROWS, x="width", y={"time": "found", "law": "law"}, panels="kind", xlabel="width", ylabel="time")
    )
    assert [[bool(ax.get_legend()) for ax in figure.axes] for figure in (lone, alike)] == [[True, True], [True, False]]


def test_what_was_not_measured_leaves_a_gap_or_gives_no_chart() -> None:
    absent = Unmeasured("no second core")
    rows: list[Any] = [{"x": 1, "y": run(1e-3)}, {"x": 2, "y": absent}]
    figure = drawn(lines(rows, x="x", y="y", xlabel="x", ylabel="time"))
    assert len(points(figure)[0][0]) == 1
    for chart in (
        lines(absent, x="x", y="y", xlabel="x", ylabel="y"),
        bars(absent, name="x", value="y", xlabel="x"),
        dots(absent, x="x", y="y", name="n", xlabel="x", ylabel="y"),
        dumbbell(absent, name="x", ends={"y": "y"}, xlabel="x"),
        distribution(absent, xlabel="x", ylabel="y"),
    ):
        assert chart is absent


def test_bars_have_the_colour_of_their_name() -> None:
    figure = drawn(bars(ROWS[::3], name="kind", value="time", xlabel="time", variants={"slow": "rose"}))
    colours = {patch.get_edgecolor() for patch in figure.axes[0].patches}
    assert len(colours) == 2
    with pytest.raises(ValueError, match="variants"):
        bars(ROWS[::3], name="kind", value="time", xlabel="time", variants={"other": "rose"})


def test_dots_have_intervals_on_both_axes() -> None:
    figure = drawn(dots(ROWS[::3], x="stored", y="time", name="kind", xlabel="bytes", ylabel="time", panels="model"))
    assert legend(figure) == ["slow", "fast"]
    assert figure.axes[0].get_ylabel() == "MLP: time (ms)"
    containers: list[Any] = list(figure.axes[0].containers)
    assert all(one.has_xerr and one.has_yerr for one in containers)


def test_a_dumbbell_joins_what_was_predicted_and_what_was_found() -> None:
    figure = drawn(dumbbell(ROWS[::3], name="kind", ends={"law": "predicted", "time": "measured"}, xlabel="time"))
    assert legend(figure) == ["predicted", "measured"]
    containers: list[Any] = list(figure.axes[0].containers)
    predicted, measured = containers
    assert predicted.lines[0].get_markerfacecolor() == "none"
    assert measured.lines[0].get_markerfacecolor() != "none"


def test_a_distribution_ends_at_all_samples() -> None:
    figure = drawn(distribution({"one": run(1e-3), "two": run(2e-3)}, xlabel="time", ylabel="calls"))
    assert legend(figure) == ["one", "two"]
    assert [np.max(np.asarray(line.get_ydata())) for line in figure.axes[0].lines[:2]] == [100, 100]


def test_values_of_different_units_share_no_axis() -> None:
    rows: list[Any] = [{"x": Counted(1, "B", "b"), "y": run(1)}, {"x": run(1), "y": run(1)}]
    with pytest.raises(ValueError, match="share"):
        lines(rows, x="x", y="y", xlabel="x", ylabel="y")


def test_values_by_name_are_rows_themselves_and_a_line_that_is_alone_needs_no_legend() -> None:
    figure = drawn(lines({1: run(2.0), 2: run(3.0)}, x="name", y={"row": "a call"}, xlabel="call", ylabel="time"))
    assert [each.tolist() for each in points(figure)[0]] == [[1, 2], [2, 3]]
    assert figure.axes[0].get_legend() is None


def test_a_series_that_is_named_as_a_variant_looks_like_it_unless_another_is_chosen() -> None:
    shares = {name: run(1.0) for name in ("linear", "CNN", "mine")}
    looks: tuple[dict[str, str] | None, ...] = (None, {"linear": "rose"})
    figures = [drawn(bars(shares, name="name", value="row", variants=look, xlabel="time")) for look in looks]
    own, chosen = ([patch.get_edgecolor() for patch in figure.axes[0].patches] for figure in figures)
    assert own[:2] == [to_rgba(color("linear")), to_rgba(color("cnn"))]
    assert len(set(own)) == 3
    assert chosen[0] == to_rgba(color("rose"))
    figure = drawn(distribution(run(1.0), xlabel="time", ylabel="calls", variants="mlp"))
    assert figure.axes[0].lines[0].get_color() == color("mlp")
