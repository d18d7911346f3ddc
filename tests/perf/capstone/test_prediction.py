"""Predictions: Amdahl's law for parts, and what a forecast makes of a profile."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.capstone.made import in_turns
from tinytorch.perf.capstone.prediction import Counted, Profile, amdahl_of_parts, forecast
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.roofline.placement import Placed

_POSITIVE = st.floats(1e-6, 1e3)


@given(st.floats(0, 1), st.floats(0.01, 100))
def test_two_parts_of_which_one_changes_are_amdahls_law(share: float, faster: float) -> None:
    assert amdahl_of_parts((1 - share, share), (1, 1 / faster)) == pytest.approx(amdahl(share, faster))


@given(st.lists(st.tuples(_POSITIVE, _POSITIVE), min_size=1, max_size=6))
def test_a_whole_gains_no_more_than_its_best_part_and_no_less_than_its_worst(parts: list[tuple[float, float]]) -> None:
    seconds, ratios = zip(*parts, strict=True)
    found = amdahl_of_parts(seconds, ratios)
    assert 1 / max(ratios) * (1 - 1e-9) <= found <= 1 / min(ratios) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("seconds", "ratios", "named"),
    [
        ((), (), "ratios must be as many"),
        ((1.0,), (1.0, 2.0), "ratios must be as many"),
        ((1.0,), (-1.0,), "at least 0"),
        ((1.0,), (0.0,), "leave some time"),
    ],
)
def test_what_is_no_whole_is_told(seconds: tuple[float, ...], ratios: tuple[float, ...], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        amdahl_of_parts(seconds, ratios)


def _profile(whole: float, ops: dict[str, float], call_seconds: float) -> Profile:
    times = in_turns({"the whole": whole, **ops})
    seconds = times.pop("the whole")
    placed = cast(Placed, cast(Any, None))
    return Profile(seconds, times, placed, Counted(100, 1000, call_seconds, 2e-4, ()))


def test_the_parts_of_a_profile_sum_to_the_whole() -> None:
    profile = _profile(10e-3, {"linear": 5e-3, "gelu": 1e-3}, 2e-3)
    assert profile.between + profile.calls + profile.work == pytest.approx(profile.whole)
    assert profile.in_ops == pytest.approx(6e-3, rel=0.1)
    crowded = _profile(10e-3, {"linear": 15e-3}, 99e-3)
    assert (crowded.between, crowded.work) == (0, 0)


def test_half_of_the_ops_and_a_third_of_the_roof() -> None:
    profile = _profile(10e-3, {"linear": 6e-3}, 2e-3)
    demand = Counted(50, 300, 1e-3, 2e-4 / 3, ())
    found = forecast(profile, before=6e-3, after=3e-3, demand=demand)
    assert (found.ops, found.alone) == (0.5, 2)
    # 4 ms between ops and 6 ms in them both halve.
    assert found.speedup == pytest.approx(2)
    # 4 + 2 + 4 ms become 2 + 1 + 4/3 ms.
    assert found.roof == pytest.approx(10 / (2 + 1 + 4 / 3), rel=0.02)
