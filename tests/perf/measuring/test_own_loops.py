"""One's own timing loop: its samples become a measurement with all conditions, or are refused."""

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from tinytorch.perf.measuring import (
    Measurement,
    between_run_variance,
    from_samples,
    from_turns,
    own_loop,
    own_loops,
    ratio,
)
from tinytorch.perf.measuring.between_run_variance import BetweenRunVariance, with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions

WAITS = (0.010, 0.012, 0.011, 0.015, 0.010, 0.013)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_run_variance, "known_variance", lambda: BetweenRunVariance(0.03, 0.01, 2.0, 10))


def test_samples_get_what_repeats_differ_by_and_all_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, wall = iter((5, 35)), iter((100, 140))
    clocks = SimpleNamespace(process_time_ns=lambda: next(ran), perf_counter_ns=lambda: next(wall))
    monkeypatch.setattr(own_loops, "time", clocks)
    with own_loop(warmup_runs=3) as loop:
        assert not gc.isenabled()
    assert gc.isenabled()
    found = from_samples("a request", WAITS, sample="requests", conditions=loop.conditions)
    assert found.samples == WAITS
    assert found.spread_between_runs == pytest.approx(0.03)
    assert (found.conditions.warmup_runs, found.conditions.collector_off) == (3, True)
    assert found.conditions.cpu_per_wall == 0.75
    assert found.interval == with_between_run_spread(Measurement("plain", WAITS, "s")).interval
    assert found.interval.low < Measurement("plain", WAITS, "s").interval.low


@pytest.mark.parametrize(("sample", "is_series", "block"), [("calls", True, 30), ("processes", False, 1)])
def test_requests_depend_on_one_another_and_processes_do_not(sample: str, is_series: bool, block: int) -> None:
    drifting = [0.01 + 0.001 * at for at in range(30)]
    found = from_samples("drift", drifting, sample=sample, conditions=Conditions())
    assert (found.dependence.time > 3, found.dependence.time > 1, found.conditions.block) == (
        is_series,
        is_series,
        block,
    )


def test_series_in_turns_are_pairs_and_parts_of_a_whole_are_shares() -> None:
    how: dict[str, Any] = {"sample": "rounds", "conditions": Conditions()}
    made = from_turns({"old": [2 * one for one in WAITS], "new": WAITS}, **how, block=2)
    assert ratio(made["old"], made["new"]).samples == pytest.approx([2.0] * 6)
    assert made["new"].conditions.block == 2
    part = from_samples("a part", (0.2, 0.3, 0.25), "%", **how, part_of="the run's time")
    assert part.conditions.part_of == "the run's time"
    for series in ({"one": WAITS}, {"one": WAITS, "other": WAITS[:-1]}):
        with pytest.raises(ValueError, match="series"):
            from_turns(series, **how)


@pytest.mark.parametrize(
    ("samples", "given", "message"),
    [
        ((), {}, "non-empty"),
        ((0.01, float("nan")), {}, "must be finite numbers"),
        ((0.01, 0.0), {}, "must be times above 0, but 0 s"),
        ((1e-9, 2e-9, 3e-9), {}, "100 steps of the clock, but last 2e-09"),
        ((1.0, 2.0, 3.0), {"unit": "ns"}, "100 steps of the clock"),
        ((0.01, 0.01, 0.01), {}, "readings of a clock, but all 3 are equal"),
        (WAITS, {"sample": "independent"}, "sample must say what one of 'a loop' is: calls, .* not 'independent'"),
        (WAITS, {"unit": "items/s"}, "rates are made with Measurement.per"),
        (WAITS, {"unit": "%"}, "with what it is part_of, not '%'"),
        ((0.5, 1.5), {"unit": "%", "part_of": "the time"}, "1.5 is not in 0 to 1"),
    ],
)
def test_what_nobody_can_vouch_for_is_refused(samples: tuple[float, ...], given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_samples("a loop", samples, **{"sample": "calls", "conditions": Conditions(), **given})


def test_many_in_a_row_make_short_calls_long_enough() -> None:
    calls = (1e-9, 2e-9, 3e-9)
    with own_loop(warmup_runs=0, inner_loops=10**6) as loop:
        sum(range(1000))
    assert from_samples("short", calls, sample="calls", conditions=loop.conditions).samples == calls
