"""Timing: what is run how often, what the figures are made of, and that nothing is left changed."""

import gc
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.perf.timing import Measurement, Timer, interleave, measure, quantity, ratio, sample


class Slow:
    """Long enough that one call makes a sample, and counted."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: int, **kwargs: int) -> int:
        self.calls += 1
        return sum(range(20_000))


def test_sample_runs_the_function_exactly_as_often_as_told() -> None:
    slow = Slow()
    found = sample(slow, "slow", warmup=3, runs=7)
    assert (found.n, found.how["inner_loops"], slow.calls) == (7, 1, 10)


def test_without_warm_up_each_sample_is_one_cold_call() -> None:
    calls = []
    found = sample(lambda: calls.append(1), "fast", warmup=0, runs=5)
    assert (found.n, len(calls)) == (5, 5)


def test_a_fast_function_is_called_many_times_for_one_sample() -> None:
    calls = []
    found = sample(lambda: calls.append(1), "fast", warmup=5, runs=4)
    loops = found.how["inner_loops"]
    assert loops > 1
    # The warm-up, a second look at the inner loop, and the samples.
    assert len(calls) > 5 + 4 * loops


def test_timer_keys_agree_with_numpy_on_the_kept_samples() -> None:
    timer = Timer()
    found = timer.measure(Slow(), warmup=1, runs=20)
    ms = np.array(timer.measurement.samples) * 1e3
    assert found["mean_ms"] == pytest.approx(ms.mean())
    assert found["std_ms"] == pytest.approx(ms.std(ddof=1))
    assert found["min_ms"] == pytest.approx(ms.min())
    assert found["max_ms"] == pytest.approx(ms.max())
    for q in (50, 95, 99):
        assert found[f"p{q}_ms"] == pytest.approx(np.percentile(ms, q))
    assert found["ci_low_ms"] <= found["p50_ms"] <= found["ci_high_ms"]
    assert found["runs"] == 20


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 8), st.integers(0, 3))
def test_any_number_of_runs_works(runs: int, warmup: int) -> None:
    found = Timer().measure(lambda: None, warmup=warmup, runs=runs)
    assert found["runs"] == runs
    assert found["min_ms"] <= found["ci_low_ms"] <= found["ci_high_ms"] <= found["max_ms"]
    assert math.isnan(found["ci_confidence"]) == (runs == 1)


def test_arguments_reach_the_function() -> None:
    seen: list[tuple[int, int]] = []

    def function(a: int, b: int = 0) -> None:
        seen.append((a, b))

    Timer().measure(function, warmup=0, runs=1, args=(1,), kwargs={"b": 2})
    assert seen == [(1, 2)]


def test_elapsed_is_the_bodys_time_and_stands_still_after_it() -> None:
    with Timer() as timer:
        inside = timer.elapsed
    after = timer.elapsed
    assert 0 <= inside <= after
    assert timer.elapsed == after


def test_a_timer_that_never_ran_has_nothing_to_say() -> None:
    with pytest.raises(RuntimeError, match="with Timer"):
        _ = Timer().elapsed
    with pytest.raises(RuntimeError, match="measure"):
        Timer().print_report()


def test_the_report_shows_the_median(capsys: pytest.CaptureFixture[str]) -> None:
    timer = Timer()
    found = timer.measure(Slow(), warmup=1, runs=6)
    timer.print_report("slow sum")
    said = capsys.readouterr().out
    assert "slow sum" in said
    assert f"{found['p50_ms']:.4f}" in said


@pytest.mark.parametrize(("warmup", "runs"), [(3, 0), (-1, 5)])
def test_a_bad_plan_raises_before_anything_runs(warmup: int, runs: int) -> None:
    slow = Slow()
    with pytest.raises(ValueError, match="must be at least"):
        Timer().measure(slow, warmup, runs)
    assert slow.calls == 0


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_off_meanwhile_and_then_as_it_was(on: bool) -> None:
    before = gc.isenabled()
    states = []
    try:
        (gc.enable if on else gc.disable)()
        sample(lambda: states.append(gc.isenabled()), "state", warmup=0, runs=2)
        after = gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()
    assert states == [False, False]
    assert after is on


def test_interleaved_samples_pair_up_and_a_slower_baseline_is_a_speedup_above_one() -> None:
    both = interleave({"slow": lambda: sum(range(40_000)), "fast": lambda: sum(range(400))}, repeats=8)
    speedup = ratio(both["slow"], both["fast"])
    assert speedup.samples == tuple(a / b for a, b in zip(both["slow"].samples, both["fast"].samples, strict=True))
    assert speedup.median > 1


def test_runs_that_were_not_interleaved_are_not_compared() -> None:
    one, other = (measure(lambda: None, name, repeats=6) for name in ("one", "other"))
    with pytest.raises(ValueError, match="not interleaved"):
        ratio(one, other)


def test_rates_are_made_of_every_sample() -> None:
    seconds = Measurement("run", (1.0, 2.0, 4.0), "s")
    assert seconds.per(8, "FLOP/s").samples == (8.0, 4.0, 2.0)
    with pytest.raises(ValueError, match="hold 0"):
        Measurement("run", (0.0,), "s").per(1, "B/s")
    assert quantity(3, "B", "bytes").median == 3
