"""What is made of the times of a round, and the rows of variants, on times of known ratios."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tinytorch.chapters.benchmarking import studies
from tinytorch.perf.benchmarking import Performance, pareto_front
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Measurement, of_rounds
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.report import Page

#: Seconds and bytes of each variant.
TABLE = {"baseline": (12.0, 12_000), "quantized": (3.0, 3000), "pruned": (3.5, 1200), "combined": (2.0, 6000)}


@pytest.mark.parametrize(("both", "kept"), [(2.0, 1.0), (4.0, 0.5)])
def test_gains_that_multiply_keep_all_of_the_product(both: float, kept: float) -> None:
    times = in_turns({"neither": 12.0, "first": 6.0, "second": 4.0, "both": both}, noise={"neither": 0.1})
    found = of_rounds("kept", lambda n, a, b, c: a * b / (c * n), *times.values())
    assert found.median == pytest.approx(kept, rel=0.01)
    assert found.interval.low < kept < found.interval.high


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
