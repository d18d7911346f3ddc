"""Scenarios: LoadGen's counts, queues worked out by hand on a clock that the test turns, and what makes a run valid."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from tests.perf.benchmarking.made import factory
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking import accuracy_run, fewest_queries, fewest_within, proven_percentile, run_scenario
from tinytorch.perf.benchmarking.scenarios import Scenario
from tinytorch.perf.benchmarking.variants import Task, scoring


class TurnedClock:
    """A clock that only moves when it is waited for or work is done."""

    def __init__(self) -> None:
        self.moment = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.moment

    def wait_until(self, moment: float) -> None:
        self.waits.append(moment)
        self.moment = max(self.moment, moment)


def work(clock: TurnedClock, seconds: float) -> Task:
    """Return a task whose calls take ``seconds`` of the clock."""

    def perform(model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        clock.moment += seconds
        return inputs

    return Task("made", np.arange(10.0), None, perform, scoring(np.ones(1)).right)


MODEL: Module = Linear(1, 1, seed=0)


def test_counts_are_loadgens() -> None:
    assert (fewest_queries(0.9), fewest_queries(0.99)) == (64, 662)
    assert (fewest_within(0, 0.9), fewest_within(0, 0.99)) == (44, 459)


@pytest.mark.parametrize(("over", "share"), [(0, 0.5), (1, 0.9), (7, 0.9), (30, 0.99)])
def test_the_fewest_are_the_first_that_the_binomial_tail_allows(over: int, share: float) -> None:
    within = fewest_within(over, share)
    assert binom.cdf(over, within + over, 1 - share) <= 0.01 * (1 + 1e-9)
    assert binom.cdf(over, within - 1 + over, 1 - share) > 0.01


def test_the_proven_percentile_is_the_sample_that_loadgen_takes() -> None:
    latencies = np.random.default_rng(0).permutation(np.arange(10_000.0))
    assert proven_percentile(latencies, 0.99) == 10_000 - 77
    assert proven_percentile(np.arange(64.0), 0.9) == 63
    assert proven_percentile(np.arange(63.0), 0.9) is None


def test_single_stream_needs_64_queries_and_says_how_many_are_missing() -> None:
    clock = TurnedClock()
    made = run_scenario("single-stream", MODEL, work(clock, 0.01), least_seconds=0, clock=clock)
    assert made.valid
    assert made.latencies.n == 64
    assert made.metric is not None
    assert made.metric.median == pytest.approx(0.01)
    cut = run_scenario("single-stream", MODEL, work(clock, 0.01), least_seconds=0, at_most_seconds=0.4, clock=clock)
    assert not cut.valid
    assert cut.metric is None
    assert cut.missing == 64 - cut.latencies.n > 0


def test_a_run_goes_on_until_its_least_duration() -> None:
    clock = TurnedClock()
    made = run_scenario("multi-stream", MODEL, work(clock, 0.001), least_seconds=2, clock=clock)
    assert made.valid
    assert made.latencies.n >= 2000
    assert made.seconds >= 2


def test_latencies_of_a_server_are_those_of_a_queue() -> None:
    clock = TurnedClock()
    made = run_scenario(
        "server", MODEL, work(clock, 0.02), rate=40.0, latency_bound=1.0, least_seconds=0, seed=3, clock=clock
    )
    arrivals = np.array(clock.waits) - 0.02  # one call of 0.02 s before the clock's start is the warm-up
    free, expected = 0.0, []
    for arrival in arrivals:
        free = max(free, arrival) + 0.02
        expected.append(free - arrival)
    np.testing.assert_allclose(made.latencies.samples, expected, rtol=1e-9)
    assert np.diff(arrivals).mean() == pytest.approx(1 / 40, rel=0.15)
    assert np.diff(arrivals).std() == pytest.approx(1 / 40, rel=0.2), "gaps of a Poisson process spread like their mean"


def test_a_server_that_cannot_keep_up_is_invalid_and_no_queries_mend_it() -> None:
    clock = TurnedClock()
    options: dict[str, Any] = {"rate": 100.0, "latency_bound": 0.05, "least_seconds": 0, "clock": clock}
    slow = run_scenario("server", MODEL, work(clock, 0.02), **options)
    assert (slow.valid, slow.missing, slow.metric) == (False, None, None)
    together = run_scenario("server", MODEL, work(clock, 0.02), batch=64, **options)
    assert together.valid
    assert together.metric is not None
    assert (together.metric.median, together.metric.unit) == (100.0, "queries/s")


def test_a_few_late_queries_need_more_to_prove_the_bound() -> None:
    clock = TurnedClock()
    calls = 0

    def perform(model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        nonlocal calls
        calls += 1
        clock.moment += 1e-6 if calls != 100 else 0.2
        return inputs

    task = Task("made", np.arange(10.0), None, perform, scoring(np.ones(1)).right)
    options: dict[str, Any] = {"least_seconds": 0, "at_most_seconds": 1e6, "clock": clock}
    made = run_scenario("server", MODEL, task, rate=0.1, latency_bound=0.1, **options)
    assert made.latencies.n == 459
    assert made.missing == 662 - 459
    assert not made.valid


def test_offline_counts_samples() -> None:
    clock = TurnedClock()
    made = run_scenario("offline", MODEL, work(clock, 0.001), batch=64, least_seconds=0, clock=clock)
    assert made.valid
    assert made.metric is not None
    assert made.metric.median == pytest.approx(64_000)
    assert made.latencies.how["samples"] == 24_576


def test_one_seed_makes_one_schedule_on_the_machines_clock() -> None:
    model = factory()
    data = np.ones((3, 4), np.float32)
    runs = [
        run_scenario("server", model, data, rate=5000.0, latency_bound=1.0, least_seconds=0, seed=seed)
        for seed in (1, 1)
    ]
    assert all(one.latencies.n == 459 and one.latencies.minimum > 0 for one in runs)
    assert runs[0].seconds == pytest.approx(runs[1].seconds, rel=0.2)


def test_accuracy_mode_takes_each_example_once() -> None:
    model: Any = factory()
    made = accuracy_run("single-stream", model, (model.example_input, model.example_target))
    right = (model(Tensor(model.example_input)).data.argmax(axis=1) == 0).mean()
    assert made.accuracy.median == pytest.approx(right)
    assert made.accuracy.how["examples"] == 12
    with pytest.raises(ValueError, match="targets"):
        accuracy_run("offline", model, model.example_input)


@pytest.mark.parametrize(
    ("scenario", "options", "words"),
    [
        ("batch", {}, "scenario must be"),
        ("server", {}, "rate and latency_bound"),
        ("offline", {"rate": 1.0}, "rate and latency_bound"),
        ("server", {"rate": 0.0, "latency_bound": 1.0}, "rate must be above 0"),
        ("offline", {"batch": 0}, "batch"),
        ("offline", {"least_seconds": 3.0, "at_most_seconds": 1.0}, "least_seconds"),
        ("offline", {"least_queries": 0}, "least_queries"),
    ],
)
def test_what_cannot_be_run_is_refused(scenario: Scenario, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run_scenario(scenario, MODEL, np.ones((1, 1), np.float32), **options)
