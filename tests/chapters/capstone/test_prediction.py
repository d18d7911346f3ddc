"""Predictions: what a forecast makes of a profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.chapters.capstone.made_trials import in_turns
from tinytorch.chapters.capstone import prediction
from tinytorch.chapters.capstone.prediction import Counts, Profile, forecast
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import BetweenRuns
from tinytorch.perf.roofline.placement import Placed


def _profile(whole: float, ops: dict[str, float], call_seconds: float) -> Profile:
    times = in_turns({"the whole": whole, **ops})
    seconds = times.pop("the whole")
    placed = cast(Placed, cast(Any, None))
    return Profile(seconds, times, placed, Counts(100, 1000, call_seconds, 2e-4, ()))


def test_the_parts_of_a_profile_sum_to_the_whole() -> None:
    profile = _profile(10e-3, {"linear": 5e-3, "gelu": 1e-3}, 2e-3)
    assert profile.between + profile.calls + profile.work == pytest.approx(profile.whole)
    assert profile.in_ops == pytest.approx(6e-3, rel=0.1)
    crowded = _profile(10e-3, {"linear": 15e-3}, 99e-3)
    assert (crowded.between, crowded.work) == (0, 0)


def test_shares_of_a_profile_are_those_of_its_turns_and_carry_the_least_core_of_any_op() -> None:
    made = _profile(10e-3, {"linear": 6e-3}, 2e-3)
    (op, seconds), *_ = made.by_op.items()
    busy = replace(seconds, conditions=replace(seconds.conditions, cpu_per_wall=0.5))
    found = replace(made, by_op={op: busy}).shares()
    assert found["between"].n == made.seconds.n
    assert found["between"].median == pytest.approx(0.4, rel=0.01)
    assert found["work"].median + found["calls"].median == pytest.approx(0.6, rel=0.01)
    assert found["rest"].samples == pytest.approx([1 - share for share in found["work"].samples])
    assert {share.conditions.cpu_per_wall for share in found.values()} == {0.5}


def test_no_share_is_said_to_be_more_than_all_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeated(share: Measurement, block: int | None) -> Measurement:
        return replace(share, conditions=replace(share.conditions, between_runs=BetweenRuns(0.4)))

    monkeypatch.setattr(prediction, "with_between_run_spread", repeated)
    rest = _profile(10e-3, {"linear": 6e-3}, 5e-3).shares()["rest"]
    assert rest.interval.low < 0.6 < rest.median < rest.interval.high == 1


def test_half_of_the_ops_and_a_third_of_the_roof() -> None:
    profile = _profile(10e-3, {"linear": 6e-3}, 2e-3)
    demand = Counts(50, 300, 1e-3, 2e-4 / 3, ())
    found = forecast(profile, before=6e-3, after=3e-3, demand=demand)
    assert (found.ops, found.alone) == (0.5, 2)
    # 4 ms between ops and 6 ms in them both halve.
    assert found.speedup == pytest.approx(2)
    # 4 + 2 + 4 ms become 2 + 1 + 4/3 ms.
    assert found.roof == pytest.approx(10 / (2 + 1 + 4 / 3), rel=0.02)
