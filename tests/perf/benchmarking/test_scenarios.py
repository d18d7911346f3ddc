"""Scenarios: the latencies of requests are those of a queue, as the calls themselves saw it."""

import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.perf.benchmarking.scenarios import server, single_stream
from tinytorch.perf.benchmarking.variants import Task, scoring

MODEL: Module = Linear(1, 1, seed=0)


class Served:
    """A task that writes down when each call began and ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begins: list[float] = []
        self.ends: list[float] = []

    def task(self) -> Task:
        return Task("made", np.arange(10.0), None, self._perform, scoring(np.ones(1)).right)

    def _perform(self, model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self.begins.append(time.perf_counter())
        while time.perf_counter() < self.begins[-1] + self.seconds:
            pass
        self.ends.append(time.perf_counter())
        return inputs


def test_one_after_the_other_a_request_takes_its_own_time() -> None:
    served = Served(1e-4)
    made = single_stream(MODEL, served.task(), queries=20)
    assert (made.n, made.name, len(served.ends)) == (20, "latency, single-stream", 21)
    # From answer to answer: a request arrives when the one before is answered.
    assert np.cumsum(made.samples)[-1] == pytest.approx(served.ends[-1] - served.ends[0], rel=0.1, abs=1e-3)
    assert single_stream(MODEL, served.task(), at_most_seconds=1e-9).n <= 2


def test_latencies_of_a_server_run_from_arrivals_at_random_to_answers_in_their_order() -> None:
    served = Served(1e-3)
    made = server(MODEL, served.task(), 600.0, queries=100, seed=3, at_most_seconds=1000)
    assert made.n == 100
    arrivals = np.array(served.ends[1:]) - made.samples
    expected = np.random.default_rng((3, 1)).exponential(1 / 600, 100)
    # An answer is noted a moment before the instrument has it.
    assert np.diff(arrivals) == pytest.approx(expected[1:], abs=5e-3)
    assert np.median(np.diff(arrivals) - expected[1:]) == pytest.approx(0, abs=1e-4)
    assert all(begin >= arrival - 1e-4 for begin, arrival in zip(served.begins[1:], arrivals, strict=True))
    assert sorted(served.begins) == served.begins
    assert np.mean(made.samples) > 1.2e-3, "some requests waited for those before them"


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="rate"):
        server(MODEL, Served(0).task(), 0)
    with pytest.raises(ValueError, match="at_most_seconds"):
        single_stream(MODEL, Served(0).task(), queries=0)
