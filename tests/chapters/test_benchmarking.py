"""Flawed experiments, loops of requests, and variants, from values that are calculated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import norm

from tinytorch.chapters.benchmarking import ci, flaws, load, studies
from tinytorch.perf.benchmarking import Performance, pareto_front
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.report import Page


def test_the_typed_gelu_is_right_but_wide() -> None:
    x = np.linspace(-4, 4, 1000, dtype=np.float32)
    made = flaws.typed_gelu(x)
    assert made.dtype == np.float64
    assert np.abs(made - 0.5 * x * (1 + erf(x / np.sqrt(2)))).max() < 1e-3


def test_only_intervals_that_leave_out_1_are_counted() -> None:
    # The last publishes an interval above 1, though one of its repeats lies below 1.
    repeats = (1.032, 1.019, 1.034, 0.999, 1.017, 1.01, 1.023, 1.013, 1.061)
    published = [
        Measurement("made", each, "", Conditions(sample=Sample.TRIALS)) for each in ((2.0,) * 9, (1.0,) * 9, repeats)
    ]
    assert flaws.differences_not_there(published).value == 2


def test_a_change_point_is_where_the_mean_changes() -> None:
    builds = np.array([[0.0] * 7 + [1.0] * 13, [3.0] * 15 + [1.0] * 5])
    at, step = ci.change_point(builds)
    assert at.tolist() == [7, 15]
    assert step == pytest.approx([20**0.5] * 2)  # all of the variance is that of the step


def test_a_threshold_finds_large_steps_at_once_and_change_points_find_small_ones() -> None:
    none, large, small = (ci.alerts(step, after) for step, after in ((0, 40), (4, 1), (1, 40)))
    assert none["change_point"].value == pytest.approx(0.05, abs=0.05)
    assert none["threshold"].value == pytest.approx(1 - norm.cdf(3) ** 100, abs=0.07)
    assert large["threshold"].value == pytest.approx(norm.cdf(1), abs=0.1)
    assert small["threshold"].value == pytest.approx(1 - norm.cdf(2) ** 40, abs=0.1)
    assert small["change_point"].value > 0.9 > large["change_point"].value


def test_means_are_those_on_both_sides_of_the_change_point() -> None:
    rows = ci.series_with_means(np.array([1.0] * 4 + [3.0] * 2))
    assert [row["mean"].value for row in rows] == [0.0] * 4 + [2.0] * 2


def served(slow: float, arrives_after: float | None) -> np.ndarray:
    """Return arrival, begin and end of requests to a server that needs 1, and ``slow`` from 6 to 18 of 30."""
    now, done = 0.0, list[tuple[float, float, float]]()
    while (arrived := now if arrives_after is None else len(done) * arrives_after) < 30:
        begun = max(now, arrived)
        now = begun + (slow if 6 <= begun < 18 else 1.0)
        done.append((arrived, begun, now))
    return np.array(done)


@pytest.mark.parametrize("slow", [2.1, 2.5, 3.0])
def test_as_many_are_late_as_the_formulas_say(slow: float) -> None:
    """Late by the formula is who waits at all; who waits for less than an answer is not counted as late."""
    found = load.met([(served(slow, None), served(slow, 1 / 0.6))] * 6, 1.0, Conditions())
    assert found.slow.median == pytest.approx(slow)
    assert found.closed.median == pytest.approx(found.closed_by_formula.value, abs=0.05)
    assert found.opened.median == pytest.approx(found.opened_by_formula.value, abs=0.12)
    assert found.hidden.median == pytest.approx(found.opened.median - found.closed.median)
    assert found.missed.median == pytest.approx(0, abs=0.12)


@pytest.mark.parametrize(("slow", "late"), [(0.8, 0.0), (1.0, 0.0), (1e9, 0.8)])
def test_none_are_late_on_a_server_that_is_not_slow_and_all_from_then_on_if_it_stops(slow: float, late: float) -> None:
    assert load.late_in_an_open_loop(slow) == pytest.approx(late)


#: Seconds and bytes of each variant.
TABLE = {"baseline": (12.0, 12_000), "quantized": (3.0, 3000), "pruned": (3.5, 1200), "combined": (2.0, 6000)}


def performance(name: str) -> Performance:
    noise = 1 + 0.001 * np.random.default_rng(len(name)).standard_normal(30)
    others = tuple(other for other in TABLE if other != name)
    times = Measurement(name, tuple(TABLE[name][0] * noise), "s", Conditions(interleaved_with=others))
    nbytes, correct = TABLE[name][1], np.arange(2000) < 1900
    return Performance(name, "forward", {64: (times,)}, {64: Counted(nbytes, "B", name)}, nbytes, correct, "run")


def test_each_variant_stands_beside_its_baseline() -> None:
    results = {name: performance(name) for name in TABLE}
    front = pareto_front(results)
    rows = {row["name"]: row for row in studies.variants(results, front)}
    assert rows["baseline"]["speedup"] is None
    assert float(rows["quantized"]["speedup"]) == pytest.approx(4, rel=0.01)
    assert {name for name, row in rows.items() if row["on_front"]} == {"pruned", "combined", "quantized"}
    assert studies.on_front(results, front).value == 3


def starve(one: Measurement) -> Measurement:
    return replace(one, conditions=replace(one.conditions, cpu_per_wall=0.5, blas_threads=1))


def test_nothing_is_off_a_front_by_a_verdict_that_the_page_withholds(monkeypatch: pytest.MonkeyPatch) -> None:
    measured, page = {name: performance(name) for name in TABLE}, Page("benchmarking")
    proven = pareto_front(measured)
    assert "baseline" in proven.dominated
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    starved = {name: replace(one, times={64: tuple(map(starve, one.times[64]))}) for name, one in measured.items()}
    front = pareto_front(starved, told=page.judged)
    assert (front.front, dict(front.dominated)) == (tuple(TABLE), {})
