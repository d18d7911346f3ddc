"""Figures and tables of collectives and of scaling: what was measured is in them, the rest is marked or left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.chapters.distributed.made_steps import made_scaling
from tests.perf.distributed.collectives.made_times import ALPHA, BETA, made_times
from tinytorch.chapters.distributed.figures import VARIANTS, collective_figure, link_table, scaling_figure
from tinytorch.perf.distributed.collectives.link_fit import FittedLink, fit
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.collectives.timing import Kind
from tinytorch.perf.measuring import Measurement
from tinytorch.report.figures import check_figure, settle, to_body
from tinytorch.report.page import Page


def made_collectives(oversubscribed: bool = False) -> Collectives:
    times = made_times(0.01)
    slower = {size: one.scaled(3, name=f"ring {size}") for size, one in times.items()}
    barrier = Measurement("barrier", (1e-6,) * 9, "s")
    return Collectives(2, 1, "MPI", oversubscribed, {"all-reduce": times, "ring all-reduce": slower}, barrier)


def checked(figure: Figure) -> list[dict[str, Any]]:
    """Return the series of a figure that passes the check of every figure."""
    check_figure(figure, caption="A caption.", alt="What there is to see.", key="figure")
    settle(figure)
    found: list[dict[str, Any]] = to_body(figure, caption="c", alt="a", key="figure")["series"]
    return found


def legend(figure: Figure) -> list[str]:
    owners = [*figure.legends, *(ax.get_legend() for ax in figure.axes)]
    return [text.get_text() for one in owners if one is not None for text in one.get_texts()]


def test_times_and_bandwidths_are_drawn_with_their_lines() -> None:
    made = made_collectives()
    fitted: dict[Kind, list[FittedLink]] = {"all-reduce": [fit(made.of("all-reduce"))]}
    figure = collective_figure(made, ["all-reduce", "ring all-reduce"], fitted=fitted)
    series = checked(figure)
    assert [one["variant"] for one in series] == [VARIANTS["all-reduce"], VARIANTS["ring all-reduce"]]
    assert series[0]["x"] == list(map(float, made.sizes))
    dashed = [line for line in figure.axes[0].lines if line.get_linewidth() == 1.2 and np.size(line.get_xdata()) == 60]
    assert len(dashed) == 1
    sizes, microseconds = (np.asarray(values) for values in dashed[0].get_data())
    np.testing.assert_allclose(microseconds, (ALPHA + BETA * sizes) * 1e6, rtol=0.02)
    with pytest.raises(ValueError, match="kinds must name at least one"):
        collective_figure(made, [], fitted={})


def test_the_legend_says_where_ranks_shared_cores() -> None:
    assert legend(collective_figure(made_collectives(), ["all-reduce"], fitted={})) == ["all-reduce"]
    marked = legend(collective_figure(made_collectives(oversubscribed=True), ["all-reduce"], fitted={}))
    assert marked == ["all-reduce, ranks share cores"]


def test_a_table_of_links_says_what_was_fitted_and_how_far_it_is_off() -> None:
    link = fit(made_collectives().of("all-reduce"))
    text = link_table(Page("links"), "links", [link], caption="Links.").text
    assert "Farthest off" in text
    assert "8 B" in text
    assert "2 MiB" in text
    flat = {size: Measurement("flat", (3e-6,) * 9, "s") for size in (8, 64, 512)}
    assert "–" in link_table(Page("links"), "links", [fit(flat)], caption="Links.").text


def test_speedups_are_measured_and_laws_are_modelled() -> None:
    made = made_scaling("strong", {1: 1.0, 2: 0.6, 4: 0.4, 8: 0.5}, cores=4)
    series = checked(scaling_figure([made, made_scaling("weak", {1: 1.0, 2: 1.2})]))
    strong, amdahl, weak, gustafson = series
    assert strong["x"] == [1, 2, 4]
    kinds = [{number["kind"] for number in one["numbers"]} for one in series]
    assert "modelled" not in kinds[0] | kinds[2]
    assert kinds[1] == kinds[3] == {"modelled"}
    assert amdahl["label"] == "Amdahl's law, modelled"
    assert amdahl["x"] == [4, 8, 16, 32]
    assert gustafson["x"] == [2, 4, 8, 16, 32]
    assert weak["x"] == [1, 2]
    law = made.law()
    assert law is not None
    assert amdahl["numbers"][1]["value"] == pytest.approx(law.speedup(8))
    with pytest.raises(ValueError, match="scalings must hold one with more than one rank"):
        scaling_figure([made_scaling("strong", {1: 1.0, 2: 0.5}, cores=1)])
