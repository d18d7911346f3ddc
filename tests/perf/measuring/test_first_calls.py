"""First calls come from fresh processes, and are held against the settled calls of the same one."""

import pytest

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.first_calls import first_calls, over_steady_state, steady_state


def test_first_calls_come_from_as_many_processes_as_asked() -> None:
    calls = first_calls("mlp", batch=1, calls=4, processes=2)
    assert {number: call.n for number, call in calls.items()} == {1: 2, 2: 2, 3: 2, 4: 2}
    assert all(sample > 0 for call in calls.values() for sample in call.samples)


def test_first_calls_stop_at_two_processes_if_the_time_is_over() -> None:
    assert first_calls("mlp", batch=1, calls=1, processes=4, at_most_seconds=1e-9)[1].n == 2


def test_settled_calls_are_medians_within_a_process() -> None:
    calls = {i: Measurement(f"call {i}", (ms, ms / 10), "s") for i, ms in enumerate((30.0, 3.0, 1.0, 2.0), start=1)}
    assert steady_state(calls, first=1).samples == pytest.approx((2.0, 0.2))
    assert over_steady_state(calls, 1, 1, first=1).samples == pytest.approx((15.0, 15.0))
    assert over_steady_state(calls, 2, 4, first=1).samples == pytest.approx((1.0, 1.0))
