"""Timing: what is run how often, what the figures are made of, that nothing is left changed; and tables of rows."""

import gc
import math
import mmap
import resource
import time
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tinytorch.perf.measuring import Measurement, Timer, interleave, measure, ratio, sample
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.measuring.text_table import Column, mebibytes, milliseconds, percent, print_table, text_table


class Slow:
    """Counts its calls."""

    calls = 0

    def __call__(self) -> None:
        self.calls += 1
        sum(range(200_000))


@pytest.mark.parametrize(("warmup", "runs"), [(3, 7), (0, 5)])
def test_sample_runs_the_function_exactly_as_often_as_told(warmup: int, runs: int) -> None:
    slow = Slow()
    found = sample(slow, "slow", warmup=warmup, runs=runs)
    assert (found.n, found.conditions.inner_loops, slow.calls) == (runs, 1, warmup + runs)


@pytest.mark.parametrize("warmup", [0, 5])
def test_a_fast_function_is_called_many_times_for_one_sample_unless_it_is_cold(warmup: int) -> None:
    """Calls are the warm-up, a second look at the inner loop, and the samples."""
    calls: list[None] = []
    found = sample(lambda: calls.append(None), "fast", warmup=warmup, runs=4)
    loops = found.conditions.inner_loops or 0
    look = len(calls) - warmup - 4 * loops
    assert (loops > 1, look > 1) == (warmup > 0, warmup > 0)


@pytest.mark.parametrize("runs", [1, 2, 8, 20])
def test_timer_keys_agree_with_numpy_on_the_kept_samples_of_any_number(runs: int) -> None:
    timer = Timer()
    found = timer.measure(Slow(), warmup=1, runs=runs)
    ms = np.array(timer.measurement.samples) * 1e3
    expected = {"mean_ms": ms.mean(), "min_ms": ms.min(), "max_ms": ms.max(), "runs": runs}
    expected |= {f"p{q}_ms": np.percentile(ms, q) for q in (50, 95, 99)}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    if runs > 1:
        assert found["std_ms"] == pytest.approx(ms.std(ddof=1))
    assert found["ci_low_ms"] <= found["p50_ms"] <= found["ci_high_ms"]
    assert math.isnan(found["ci_confidence"]) == (runs == 1)


def test_arguments_reach_the_function() -> None:
    seen: dict[int, int] = {}
    Timer().measure(seen.update, warmup=0, runs=1, args=([(1, 2)],), kwargs={"b": 2})
    assert seen == {1: 2, "b": 2}


def test_elapsed_is_the_bodys_time_and_stands_still_after_it() -> None:
    with Timer() as timer:
        inside = timer.elapsed
    after = timer.elapsed
    assert 0 <= inside <= after
    assert timer.elapsed == after


def test_a_timer_that_never_ran_has_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="with Timer"):
        _ = Timer().elapsed
    Timer().print_report("sum")
    assert "nothing" in capsys.readouterr().out


@pytest.mark.parametrize(("warmup", "runs"), [(3, 0), (-1, 5)])
def test_a_bad_plan_raises_before_anything_runs(warmup: int, runs: int) -> None:
    slow = Slow()
    with pytest.raises(ValueError, match="least"):
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


def test_interleaved_samples_pair_up_and_a_new_name_parts_none() -> None:
    both = interleave({"slow": lambda: sum(range(40_000)), "fast": lambda: sum(range(400))}, repeats=8)
    pairs = list(zip(both["slow"].samples, both["fast"].samples, strict=True))
    speedup = ratio(both["slow"], both["fast"])
    assert speedup.samples == tuple(a / b for a, b in pairs)
    assert ratio(both["slow"], both["fast"].scaled(2.0, name="twice")).samples == tuple(a / (2 * b) for a, b in pairs)
    again = interleave({"slow": lambda: None, "fast": lambda: None}, repeats=8)
    with pytest.raises(ValueError, match="not interleaved"):
        ratio(both["slow"], again["fast"])


def test_rates_are_made_of_every_sample_and_outliers_stay_among_them() -> None:
    seconds = Measurement("run", (1.0, 1.0, 1.1, 1.1, 1.2, 1.2, 1.3, 8.0), "s")
    assert seconds.per(8, "FLOP/s").samples == tuple(8 / each for each in seconds.samples)
    assert seconds.maximum == 8.0
    with pytest.raises(ValueError, match="hold 0"):
        Measurement("run", (0.0,), "s").per(1, "B/s")
    with pytest.raises(ValueError, match="scaled"):
        seconds.per(8, "s")


def test_a_percentile_of_too_few_samples_is_refused_or_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    calls = Measurement("calls", tuple(float(i) for i in range(1, 101)), "s")
    assert calls.percentile(95) == pytest.approx(95.05)
    assert calls.percentile(95) in calls.tail(95).interval
    for refused in (calls.percentile, calls.tail):
        with pytest.raises(ValueError, match="percentile"):
            refused(99)
    assert calls.percentile_at_least(99) == 97
    timer = Timer()
    found = timer.measure(Slow(), warmup=1, runs=60)
    assert (found["p95_is_bound"], found["p99_is_bound"]) == (False, True)
    timer.print_report("slow sum")
    assert f"at least {found['p99_at_least_ms']:.4f} ms" in capsys.readouterr().out


def test_a_tail_goes_with_its_interval_into_other_units_and_rates() -> None:
    calls = Measurement("calls", tuple(float(i) for i in range(1, 401)), "s", Conditions(warmup_runs=3))
    tail = calls.tail(99)
    assert tail.median == calls.percentile(99)
    assert (tail.n, tail.conditions.statistic, tail.conditions.warmup_runs) == (400, "percentile 99", 3)
    in_ms, rate = tail.scaled(1e3, "ms"), tail.per(10, "items/s")
    assert in_ms.interval == Interval(1e3 * tail.interval.low, 1e3 * tail.interval.high, tail.interval.confidence)
    assert (rate.median, rate.unit) == (10 / tail.median, "items/s")
    assert rate.interval.low == 10 / tail.interval.high < rate.interval.high == 10 / tail.interval.low
    assert isinstance(in_ms, Measurement)
    assert rate.samples == calls.per(10, "items/s").samples


def test_cpu_time_tells_waiting_from_work() -> None:
    both = interleave({"waits": lambda: time.sleep(0.005), "works": Slow()}, repeats=6, warmup_seconds=0.01)
    waits, works = (one.conditions.cpu_per_wall or 0 for one in both.values())
    assert waits < 0.5
    assert waits < works <= 1.1


def test_page_faults_tell_a_fresh_array_from_a_warm_one() -> None:
    size, page = 2**25, resource.getpagesize()
    target = np.ones(size, np.uint8)

    def fresh() -> None:
        with mmap.mmap(-1, size) as memory:  # straight from the system, so that no allocator can keep it
            if hasattr(mmap, "MADV_NOHUGEPAGE"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            np.frombuffer(memory, np.uint8)[:: page // 4].copy()
            for start in range(0, size, page):
                memory[start] = 1

    both = interleave({"fresh": fresh, "warm": lambda: target.fill(1)}, repeats=6, warmup_seconds=0.01)
    faults = {name: one.conditions.page_faults_per_call for name, one in both.items()}
    assert faults["fresh"] is not None and faults["warm"] is not None  # noqa: PT018
    assert faults["fresh"] >= 0.99 * size / page > 0.01 * size / page > faults["warm"]


def test_the_warm_up_says_how_long_it_took_and_how_it_ended() -> None:
    def warmed_up(seconds: float) -> Conditions:
        return measure(Slow(), "it", repeats=1, warmup_seconds=seconds).conditions

    steady, cut = warmed_up(60), warmed_up(1e-9)
    assert (steady.warmup_steady, cut.warmup_steady, cut.warmup_runs) == (True, False, 2)
    assert (steady.warmup_runs or 0) > 3
    assert min(steady.warmup_seconds or 0, cut.warmup_seconds or 0) > 0


def test_operands_of_the_block_before_are_gone_when_a_function_first_runs_in_new_places() -> None:
    alive: list[weakref.ref[Slow]] = []
    seen: list[int] = []

    def made() -> dict[str, Any]:
        operand = Slow()
        alive.append(weakref.ref(operand))

        def run() -> None:
            operand()
            seen.append(sum(one() is not None for one in alive))

        return {"one": run, "other": run}

    interleave(made, repeats=12, warmup_seconds=0)
    assert len(alive) > 1
    assert set(seen) == {1}


def test_functions_that_are_made_anew_must_keep_their_names() -> None:
    names = iter(["one", "one", "other", "other", "other", "other"])

    with pytest.raises(ValueError, match=r"not first \['one'\] and then \['other'\]"):
        interleave(lambda: {next(names): lambda: None}, repeats=12, warmup_seconds=0)


@dataclass(frozen=True)
class Row:
    name: str
    value: float | None


COLUMNS = (
    Column("name", "name", numeric=False),
    *(Column("value", f"seconds {k} (ms)", milliseconds) for k in range(9)),
)
ROWS = [Row("first", 0.0012345), Row("second", None), Row("third", 1.5)]


def test_text_aligns_numbers_to_the_right_and_shows_what_is_unknown_as_a_dash() -> None:
    lines = text_table(ROWS, COLUMNS[:2]).splitlines()
    assert [line.split() for line in lines[:2]] == [["name", "seconds", "0"], ["(ms)"]]
    assert lines[3:] == ["first       1.234", "second          –", "third   1,500.000"]
    assert {len(line) for line in lines} == {len(lines[0])}
    assert len(text_table(ROWS, COLUMNS[:1]).splitlines()) == 5, "without units there is one line of names"
    assert [milliseconds(0.25), percent(0.125), mebibytes(3 * 2**19)] == ["250.000", "12.5", "1.50"]
    assert milliseconds(float("nan")) == "–"


def test_notes_stand_below_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ROWS, COLUMNS, ["a note [in brackets]"])
    *table, note = capsys.readouterr().out.splitlines()
    assert (table, note) == (text_table(ROWS, COLUMNS).splitlines(), "a note [in brackets]")
