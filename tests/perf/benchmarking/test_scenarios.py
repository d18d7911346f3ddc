"""Scenarios: queues worked out by hand on a clock that the test turns."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.perf.benchmarking.scenarios import WallClock, server, single_stream
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


def test_one_after_the_other_a_request_takes_its_own_time() -> None:
    clock = TurnedClock()
    made = single_stream(MODEL, work(clock, 0.01), clock=clock)
    assert made.samples == pytest.approx([0.01] * 64)
    assert made.name == "latency, single-stream"
    cut = single_stream(MODEL, work(clock, 0.01), at_most_seconds=0.2, clock=clock)
    assert 19 <= cut.n <= 22


def test_latencies_of_a_server_are_those_of_a_queue() -> None:
    clock = TurnedClock()
    made = server(MODEL, work(clock, 0.02), 40.0, seed=3, at_most_seconds=1000, clock=clock)
    assert made.n == 600
    arrivals = np.array(clock.waits)
    free, expected = 0.0, []
    for arrival in arrivals:
        free = max(free, arrival) + 0.02
        expected.append(free - arrival)
    np.testing.assert_allclose(made.samples, expected, rtol=1e-9)
    assert np.diff(arrivals).mean() == pytest.approx(1 / 40, rel=0.15)
    assert np.diff(arrivals).std() == pytest.approx(1 / 40, rel=0.2), "gaps of a Poisson process spread like their mean"


def test_numbers_out_of_range_are_refused() -> None:
    task = work(TurnedClock(), 0.01)
    with pytest.raises(ValueError, match="rate"):
        server(MODEL, task, 0)
    with pytest.raises(ValueError, match="at_most_seconds"):
        single_stream(MODEL, task, queries=0)


def test_the_machines_clock_waits_until_the_moment() -> None:
    clock = WallClock()
    moment = clock.now() + 0.002
    clock.wait_until(moment)
    assert clock.now() >= moment
