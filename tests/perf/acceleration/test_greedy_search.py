"""Moves from slow to fast: whose turn it is, what is predicted, and that nothing is kept that does not pay.

The clock of the search is one of our own, which only implementations move on, so that nothing depends on real time.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made
from tests.perf.made_ceilings import made_ceilings
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.op import Array, Implementation, Op, Saved
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import greedy_search
from tinytorch.perf.acceleration.greedy_search import Climb, Move, climb, ways_of
from tinytorch.perf.acceleration.prediction import Counts, Profile, forecast, ops_alone, profiled
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Measurement, Modelled, blas_threads
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions
from tinytorch.perf.profiling import shares
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.roofline.placement import Placed

_X = Tensor(np.ones((2, 3), np.float32))


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def taking(self, op: Op, name: str, seconds: float) -> Implementation:
        """Return the op's own implementation, which takes ``seconds`` by this clock."""

        def forward(keep: bool, *arrays: Array, **params: Any) -> tuple[Array, Saved]:
            self.now += seconds
            return op.reference.forward(keep, *arrays, **params)

        return Implementation(name, forward, op.reference.backward)

    def ways(self, **seconds: Mapping[str, float]) -> dict[Op, list[Implementation]]:
        """Return implementations of ops by their names, which take so many seconds."""
        return {
            op: [self.taking(op, name, took) for name, took in seconds[op.name].items()]
            for op in (ops.tanh, ops.exp, ops.gelu)
            if op.name in seconds
        }

    def interleave(self, functions: Mapping[str, Callable[[], Any]], **_plan: Any) -> dict[str, Measurement]:
        """Stand in for `timing.interleave`: samples that differ by a hair, as real ones do."""
        found = {}
        for name, function in functions.items():
            start = self.now
            function()
            conditions = Conditions(interleaved_with=tuple(other for other in functions if other != name))
            samples = tuple((self.now - start) * (1 + 1e-6 * n) for n in range(24))
            found[name] = Measurement(name, samples, "s", conditions)
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(greedy_search, "interleave", made.interleave)
    return made


def _run() -> Tensor:
    with no_grad():
        return apply(ops.exp, apply(ops.tanh, apply(ops.tanh, _X)))


def test_the_largest_share_is_replaced_first_and_the_prediction_is_amdahls(clock: _Clock) -> None:
    ways = clock.ways(tanh={"slow": 20, "better": 4, "best": 1}, exp={"slow": 10, "best": 2})
    climbed = climb(_run, ways)
    moves = climbed.moves
    assert [(move.op, move.before, move.after) for move in moves] == [
        ("tanh", "slow", "better"),
        ("exp", "slow", "best"),
        ("tanh", "better", "best"),
    ]
    # Two calls of tanh and one of exp: 50 s, then 18, 10 and 4.
    assert [move.share.median for move in moves] == pytest.approx([40 / 50, 10 / 18, 8 / 10])
    assert [move.alone.median for move in moves] == pytest.approx([5, 5, 4])
    assert [move.predicted.value for move in moves] == pytest.approx([50 / 18, 18 / 10, 10 / 4])
    assert [move.gained.estimate.median for move in moves] == pytest.approx([50 / 18, 18 / 10, 10 / 4])
    assert [stage.median for stage in climbed.stages] == pytest.approx([50, 18, 10, 4], rel=1e-4)
    assert [kept.move for kept in climbed.kept] == list(moves)
    assert [kept.so_far.median for kept in climbed.kept] == pytest.approx([50 / 18, 5, 12.5], rel=1e-4)
    assert ops.tanh.selected is ops.tanh.reference


def test_what_makes_it_slower_is_not_kept(clock: _Clock) -> None:
    climbed = climb(_run, clock.ways(tanh={"fast": 5, "slow": 10}, exp={"slow": 4, "fast": 2}))
    worse, better = climbed.moves
    assert (worse.op, worse.kept, better.op, better.kept) == ("tanh", False, "exp", True)
    assert worse.predicted.value < 1
    assert [stage.median for stage in climbed.stages] == pytest.approx([14, 2 * 5 + 2], rel=1e-4)
    assert [kept.move for kept in climbed.kept] == [better]
    assert [gain.median for gain in climbed.gains] == pytest.approx([14 / 24, 14 / 12])


def test_gains_of_kept_moves_multiply_to_the_whole_in_every_round(clock: _Clock) -> None:
    moves = climb(_run, clock.ways(tanh={"slow": 20, "better": 4, "best": 1}, exp={"free": 0})).moves
    beside = Conditions(interleaved_with=("0", "1", "2"))
    stages = [
        Measurement(str(at), tuple((9 - at) * (1 + 0.1 * ((at * n) % 3)) for n in range(8)), "s", beside)
        for at in range(3)
    ]
    climbed = Climb(moves, tuple(stages))
    first, second = climbed.gains
    assert climbed.kept[-1].so_far.samples == pytest.approx(np.multiply(first.samples, second.samples))


def test_a_small_share_and_an_op_that_does_not_run_are_left_alone(clock: _Clock) -> None:
    ways = clock.ways(tanh={"slow": 10}, exp={"slow": 2, "fast": 1}, gelu={"slow": 2, "fast": 1})
    climbed = climb(_run, ways, least_share=0.1)
    assert (climbed.moves, climbed.kept) == ((), [])
    assert [move.op for move in climb(_run, ways, least_share=0.05).moves] == ["exp"]


def test_ways_lead_from_teaching_to_kernels() -> None:
    first = Implementation("first", ops.tanh.reference.forward, ops.tanh.reference.backward)
    ways = ways_of(_run, {ops.tanh: first, ops.gelu: first})
    assert [way.name for way in ways[ops.tanh][:2]] == ["first", "numpy"]
    assert ways[ops.exp][0] is ops.exp.reference
    assert set(ways) == {ops.tanh, ops.exp}
    assert all(len(each) == len(set(each)) for each in ways.values())


def test_bad_plans_are_refused() -> None:
    with pytest.raises(ValueError, match="least_share"):
        climb(_run, {}, least_share=1.5)
    with pytest.raises(ValueError, match="none"):
        climb(_run, {ops.tanh: []})


@pytest.mark.parametrize(("gained", "outside"), [(1.6, 0), (9.0, 1)])
def test_a_gain_outside_of_what_the_intervals_allow_is_counted(gained: float, outside: int) -> None:
    times = in_turns({"before": gained, "after": 1.0}, noise={"after": 1e-6})
    trial = compare_paired(times["before"], times["after"], matters=0.05)
    predicted = Modelled.by("law", predicted_speedup(made(0.5, "%"), made(4.0), "whole"))
    assert predicted.value == pytest.approx(1.6)
    move = Move("gelu", "numpy", "numba", made(0.5, "%"), made(4.0), predicted, trial)
    stages = tuple(in_turns({"as it began": gained, "after": 1.0}, noise={"after": 1e-6}).values())
    assert Climb((move,), stages).unexplained.value == outside


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

    monkeypatch.setattr(shares, "with_between_run_spread", repeated)
    rest = _profile(10e-3, {"linear": 6e-3}, 5e-3).shares["rest"]
    assert rest.interval.low < rest.median < rest.interval.high < 1


def test_a_call_is_profiled_op_by_op() -> None:
    layer, x = Linear(256, 256, seed=0), Tensor(np.ones((64, 256), np.float32))
    with no_grad(), blas_threads(1):
        found = profiled(lambda: apply(ops.tanh, layer(x)), made_ceilings(threads=1), "a layer")
        alone = ops_alone(lambda: layer(x))
    assert (found.counted.ops, [*found.by_op], found.placed.name) == (2, ["linear", "tanh"], "a layer")
    assert alone > 0
    assert sum(found.parts) == pytest.approx(found.seconds.median)


def test_half_of_the_ops_and_a_third_of_the_roof() -> None:
    profile = _profile(10e-3, {"linear": 6e-3}, 2e-3)
    by_law, by_roof = forecast(profile, 6e-3, 3e-3, _counts(50, 1e-3, 2e-4 / 3), "a step")
    # 4 ms between ops and 6 ms in them both halve.
    assert by_law.value == pytest.approx(2)
    # 4 + 2 + 4 ms become 2 + 1 + 4/3 ms.
    assert by_roof.value == pytest.approx(10 / (2 + 1 + 4 / 3))
