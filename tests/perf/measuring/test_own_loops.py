"""One's own timing loop: its samples become measurements with all conditions, or are refused."""

import gc
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tinytorch.perf.measuring import Measurement, between_run_variance, from_turns, own_loop, ratio
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance, with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions

WAITS = (0.010, 0.012, 0.011, 0.015, 0.010, 0.013)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_run_variance, "known_variance", lambda: BetweenRunVariance(0.03, 0.01, 2.0, 10))


def from_one(samples: Sequence[float], **how: Any) -> Measurement:
    """Return the samples beside others of which nothing is asked."""
    beside = [0.01 + 0.001 * at for at in range(len(samples))]
    return from_turns({"a loop": samples, "beside": beside}, **{"sample": "calls", "conditions": Conditions(), **how})[
        "a loop"
    ]


def test_samples_get_what_repeats_differ_by_and_all_conditions() -> None:
    with own_loop(warmup_runs=3) as loop:
        assert not gc.isenabled()
        time.sleep(0.02)
    assert gc.isenabled()
    found = from_one(WAITS, conditions=loop.conditions)
    assert found.samples == WAITS
    assert found.spread_between_runs == pytest.approx(0.03)
    assert (found.conditions.warmup_runs, found.conditions.collector_off) == (3, True)
    assert (found.conditions.cpu_per_wall or 1) < 0.5
    assert found.interval == with_between_run_spread(Measurement("plain", WAITS, "s")).interval
    assert found.interval.low < Measurement("plain", WAITS, "s").interval.low


@pytest.mark.parametrize(("sample", "is_series", "block"), [("calls", True, 30), ("processes", False, 1)])
def test_requests_depend_on_one_another_and_processes_do_not(sample: str, is_series: bool, block: int) -> None:
    found = from_one([0.01 + 0.001 * at for at in range(30)], sample=sample)
    assert (found.dependence.time > 3, found.conditions.block) == (is_series, block)


def test_series_in_turns_are_pairs() -> None:
    how: dict[str, Any] = {"sample": "rounds", "conditions": Conditions()}
    made = from_turns({"old": [2 * one for one in WAITS], "new": WAITS}, **how, block=2)
    assert ratio(made["old"], made["new"]).samples == pytest.approx([2.0] * 6)
    assert made["new"].conditions.block == 2
    for series in ({"one": WAITS}, {"one": WAITS, "other": WAITS[:-1]}):
        with pytest.raises(ValueError, match="series"):
            from_turns(series, **how)


@pytest.mark.parametrize(
    ("samples", "how", "message"),
    [
        ((), {}, "non-empty"),
        ((0.01, float("nan")), {}, "must be finite numbers"),
        ((0.01, 0.0), {}, "must be times above 0, but 0 s"),
        ((1e-9, 2e-9, 3e-9), {}, "100 steps of the clock, but last 2e-09"),
        ((0.01, 0.01, 0.01), {}, "readings of a clock, but all 3 are equal"),
        (WAITS, {"sample": "independent"}, "sample must be one of calls, .* not 'independent'"),
    ],
)
def test_what_nobody_can_vouch_for_is_refused(samples: tuple[float, ...], how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_one(samples, **how)


def test_many_in_a_row_make_short_calls_long_enough() -> None:
    calls = (1e-9, 2e-9, 3e-9)
    assert from_one(calls, conditions=Conditions(inner_loops=10**6)).samples == calls
