"""Predictions: where the time of a call goes, and what a forecast makes of it."""

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import made_ceilings
from tinytorch import Linear, Tensor
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.acceleration import prediction
from tinytorch.perf.acceleration.prediction import Counts, Profile, forecast, ops_alone, profiled
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Measurement, blas_threads
from tinytorch.perf.measuring.conditions import BetweenRuns
from tinytorch.perf.roofline.placement import Placed


def _counts(ops: int, call_seconds: float, roof_seconds: float) -> Counts:
    return Counts([cast(Event, None)] * ops, call_seconds, roof_seconds)


def _profile(whole: float, ops: dict[str, float], call_seconds: float) -> Profile:
    times = in_turns({"the whole": whole, **ops}, noise={"the whole": 0.01})
    seconds = times.pop("the whole")
    return Profile(seconds, times, cast(Placed, None), _counts(100, call_seconds, 2e-4))


def test_the_parts_of_a_profile_sum_to_the_whole() -> None:
    assert _profile(10e-3, {"linear": 5e-3, "gelu": 1e-3}, 2e-3).parts == pytest.approx((4e-3, 2e-3, 4e-3))
    crowded = _profile(10e-3, {"linear": 15e-3}, 99e-3)
    assert crowded.parts == pytest.approx((0, 10e-3, 0))


def test_shares_of_a_profile_are_those_of_its_turns_and_carry_the_least_core_of_any_op() -> None:
    made = _profile(10e-3, {"linear": 6e-3}, 2e-3)
    (op, seconds), *_ = made.by_op.items()
    busy = replace(seconds, conditions=replace(seconds.conditions, cpu_per_wall=0.5))
    found = replace(made, by_op={op: busy}).shares
    assert found["between"].n == made.seconds.n
    assert found["between"].median == pytest.approx(0.4, rel=0.01)
    assert found["work"].median + found["calls"].median == pytest.approx(0.6, rel=0.01)
    assert found["rest"].samples == pytest.approx([1 - share for share in found["work"].samples])
    assert {share.conditions.cpu_per_wall for share in found.values()} == {0.5}


def test_no_share_is_said_to_be_more_than_all_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeated(share: Measurement, block: int | None) -> Measurement:
        return replace(share, conditions=replace(share.conditions, between_runs=BetweenRuns(0.4)))

    monkeypatch.setattr(prediction, "with_between_run_spread", repeated)
    rest = _profile(10e-3, {"linear": 6e-3}, 5e-3).shares["rest"]
    assert rest.interval.low < rest.median < rest.interval.high < 1


def test_half_of_the_ops_and_a_third_of_the_roof() -> None:
    profile = _profile(10e-3, {"linear": 6e-3}, 2e-3)
    by_law, by_roof = forecast(profile, 6e-3, 3e-3, _counts(50, 1e-3, 2e-4 / 3), "a step")
    # 4 ms between ops and 6 ms in them both halve.
    assert by_law.value == pytest.approx(2)
    # 4 + 2 + 4 ms become 2 + 1 + 4/3 ms.
    assert by_roof.value == pytest.approx(10 / (2 + 1 + 4 / 3))


def test_a_call_is_profiled_op_by_op() -> None:
    layer, x = Linear(256, 256), Tensor(np.ones((64, 256), np.float32))
    with no_grad(), blas_threads(1):
        found = profiled(lambda: layer(x), made_ceilings(threads=1), "a layer")
        alone = ops_alone(lambda: layer(x))
    assert (found.counted.ops, [*found.by_op], found.placed.name) == (1, ["linear"], "a layer")
    assert alone > 0
    assert sum(found.parts) == pytest.approx(found.seconds.median)
