"""Fixes give the same results, forecasts follow Amdahl's law, and a miss has a side."""

import numpy as np
import pytest

from tinytorch import models
from tinytorch.chapters.benchmarking import bottlenecks
from tinytorch.chapters.benchmarking.bottlenecks import Bottleneck, Forecast
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.values import as_measurement


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", lambda name, seed=0: models.entry(name).make(seed).eval())
    monkeypatch.setattr(bottlenecks, "_WARMUP_SECONDS", 0.0)
    monkeypatch.setattr(bottlenecks, "_PAIRS", 3)
    monkeypatch.setattr(bottlenecks, "_RECORDINGS", 1)


@pytest.mark.usefixtures("untrained")
def test_a_batch_gives_what_a_loop_gives() -> None:
    found = bottlenecks.image_by_image()
    assert found.error < 1e-5
    assert found.forecast.fewer.value == 64, "each image makes as many operations as the batch"
    assert found.comparison.n == 3


@pytest.mark.usefixtures("untrained")
def test_the_cache_writes_the_same_tokens() -> None:
    found = bottlenecks.read_again()
    assert found.error == 0
    assert (found.forecast.inside[0].n, found.comparison.n) == (1, 3)


def seconds(name: str, *samples: float, cpu_per_wall: float | None = None) -> Measurement:
    return Measurement(name, samples, "s", Conditions(cpu_per_wall=cpu_per_wall))


def test_a_forecast_is_amdahls_law_of_two_parts() -> None:
    # 60 of 100 s between 10 ops; afterwards 5 ops that take 10 s: 100 / (30 + 10), or 100 / (60 + 10) if nothing falls.
    found = Forecast((10, 5), seconds("between", 60.0), (seconds("in", 40.0), seconds("fixed", 10.0)))
    rows = {name: (part.recorded.median, part.predicted.value, part.stays.value) for name, part in found.parts.items()}
    assert rows == {"between operations": (60, 30, 60), "in operations": (40, 10, 10), "both": (100, 40, 70)}
    assert found.predicted.value == pytest.approx(2.5)
    assert found.if_between_stays.value == pytest.approx(10 / 7)


def test_a_forecast_is_as_uncertain_as_its_parts_and_as_disturbed() -> None:
    between = seconds("between", 60, 50, 70, 60, 55, 65, cpu_per_wall=0.5)
    inside = (seconds("in", *[40.0] * 6, cpu_per_wall=0.5), seconds("fixed", 10, 8, 12, 10, 9, 11, cpu_per_wall=1.0))
    found = as_measurement(Forecast((10, 5), between, inside).predicted)
    assert found.median == pytest.approx(2.5)
    # Both parts at their ends: 110 / (35 + 12) and 90 / (25 + 8).
    assert (found.interval.low, found.interval.high) == pytest.approx((110 / 47, 90 / 33), rel=0.02)
    assert found.n == 6
    assert found.samples[1] == pytest.approx(90 / 33)
    assert found.conditions.cpu_per_wall == 0.5


def around(value: float) -> Measurement:
    """Return samples in no order whose median is ``value`` and whose ends are a thousandth of it away."""
    places = np.random.default_rng(0).permutation(np.linspace(-1, 1, 30))
    return seconds("made", *(value * (1 + 1e-3 * places)).tolist())


def fix(predicted: float, fewer: int, ratio: float) -> Bottleneck:
    """Return a fix with so many times ``fewer`` operations, whose speedup was predicted and is ``ratio``."""
    drift, own = 1 + 0.1 * np.random.default_rng(0).random(30), np.random.default_rng(1).standard_normal(30)
    law = Forecast((10 * fewer, 10), around(2.0), (around(8.0), around(10.0 / predicted - 2.0 / fewer)))
    comparison = compare_paired(ratio * drift, drift * (1 + 1e-4 * own), matters=0.05)
    return Bottleneck("a loop, by none", law, comparison, 1e-6 / fewer, around(6.0))


def test_without_what_a_recording_adds_the_law_predicts_from_the_plain_run() -> None:
    # A plain run of 10 s, of which 8 in 2 operations and so 2 between them; after it 1 operation of 4 s: 10 / (1 + 4).
    law = Forecast((2, 1), seconds("between", 5.0), (seconds("in", 8.0), seconds("fixed", 4.0)))
    comparison = compare_paired(np.full(9, 2.0), np.ones(9), matters=0.05)
    found = Bottleneck("a loop", law, comparison, 0.0, seconds("plain", 10.0))
    assert (found.corrected.value, found.recorded_over_plain.median) == pytest.approx((2, 1.3))


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (((4.0, 64, 2.0), (5.0, 64, 4.0), (1.2, 1, 2.5)), "supported"),  # towards 64 and towards 1
        (((1.1, 64, 2.0), (5.0, 64, 4.0), (1.2, 1, 2.5)), "refuted"),  # the first away from 64
        (((2.0, 64, 2.0), (8.0, 64, 4.0), (2.5, 1, 2.5)), "supported"),  # what does not miss has no side
        (((2.0, 64, 2.0), (4.2, 64, 4.0), (2.5, 1, 2.5)), "supported"),  # a little is a miss, too
        (((2.0, 64, 2.0), (4.0, 64, 4.0), (2.5, 1, 2.5)), "open"),  # nothing misses
        (((4.0, 2, 2.0), (5.0, 64, 4.0), (2.5, 1, 2.5)), "open"),  # the first measured at its end
    ],
)
def test_misses_lie_on_the_side_of_the_operations_or_do_not(
    made: tuple[tuple[float, int, float], ...], word: str
) -> None:
    fixed = {str(at): fix(*each) for at, each in enumerate(made)}
    assert str(bottlenecks.misses_side(fixed)) == word
    assert bottlenecks.largest_error(fixed).value == 1e-6 / min(fewer for _, fewer, _ in made)
