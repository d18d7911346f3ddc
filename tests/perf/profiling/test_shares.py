"""Shares of a run and calls timed one by one, held against what they must add up to."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.perf.profiling.test_attribution import event
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Profile
from tinytorch.perf.measuring import between_run_variance, difference
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance
from tinytorch.perf.profiling import shares


def run() -> None:
    x = Tensor(np.ones((8, 16), np.float32))
    (Linear(16, 16, seed=0)(x).tanh() + 1).sum()


def test_shares_of_parts_that_cover_everything_add_up_to_one() -> None:
    found = shares.shares(run, {"linear": lambda e: e.op == "linear", "rest": lambda e: e.op != "linear"}, repeats=5)
    np.testing.assert_allclose(np.add(found["linear"].samples, found["rest"].samples), 1)
    assert 0 < found["linear"].median < 1
    lead = difference(found["linear"], found["rest"], "they are pairs")
    np.testing.assert_allclose(lead.samples, np.subtract(found["linear"].samples, found["rest"].samples))


def test_no_share_is_more_than_the_whole_however_much_repeats_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_run_variance, "known_variance", lambda: BetweenRunVariance(0.5, 0.5, 1.0, 10))
    parts = {"linear": lambda e: e.op == "linear", "rest": lambda e: e.op != "linear"}
    found = shares.shares(run, parts, repeats=6)
    linear, rest = found["linear"].interval, found["rest"].interval
    assert 0 < linear.low < linear.high < 1
    assert (linear.low, linear.high) == pytest.approx((1 - rest.high, 1 - rest.low))
    assert shares.recorded_and_alone(run, repeats=6)["outside_recorded"].interval.high < 1


def test_time_outside_of_ops_is_a_share_of_the_recorded_run_and_of_the_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 1000 ns recorded, ops take 400; a run takes 500 ns by a clock that is read before and after it."""
    made = Profile((event("linear", 100, 400), event("relu", 500, 600)), (), 0, 1000, 1, 1, 1)
    readings = iter(range(0, 100_000, 500))
    monkeypatch.setattr(shares, "_recorded", lambda run: made)
    monkeypatch.setattr(shares, "time", SimpleNamespace(perf_counter_ns=lambda: next(readings)))
    found = shares.recorded_and_alone(run, repeats=3)
    assert found["outside_recorded"].samples == pytest.approx([0.6] * 3)
    assert found["outside_alone"].samples == pytest.approx([0.2] * 3)
    assert found["slowdown"].samples == pytest.approx([2] * 3)
    assert found["alone"].samples == pytest.approx([500e-9] * 3)
    readings = iter(range(0, 100_000, 300))
    assert shares.recorded_and_alone(run, repeats=3)["outside_alone"].samples == (0, 0, 0)


def test_studies_say_how_much_of_a_core_they_had() -> None:
    parts = shares.shares(run, {"all": lambda _: True}, repeats=3)
    for one in (parts["all"], shares.recorded_and_alone(run, 3)["alone"], shares.single_calls(run, "a run", 3)):
        assert one.conditions.cpu_per_wall is not None


def test_single_calls_keep_every_call() -> None:
    calls: list[int] = []
    measured = shares.single_calls(lambda: calls.append(1), "appending", 40)
    assert (measured.n, len(calls)) == (40, 40 + shares.WARM_RUNS)
    with pytest.raises(ValueError, match="calls"):
        shares.single_calls(run, "nothing", 0)
    with pytest.raises(ValueError, match="least"):
        shares.shares(lambda: None, {})
    with pytest.raises(ValueError, match="repeats"):
        shares.recorded_and_alone(run, 0)
