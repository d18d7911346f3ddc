"""Profiles of a plain function: every key is there and is what an independent account says."""

import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from tests.perf.made_ceilings import PEAK
from tests.perf.profiling.test_attribution import event
from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, Mystery, rows, two_layers
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Profile
from tinytorch.perf.machine import store
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.profiling import function_profile
from tinytorch.perf.profiling.function_profile import (
    ProfilerContext,
    SimpleProfiler,
    profile,
    profile_function,
    result_bytes,
)

pytestmark = pytest.mark.usefixtures("made_machine")

KEYS = {"wall_time", "cpu_time", "cpu_efficiency", "name", "memory_delta_mb", "peak_memory_mb", "result_size_mb"}


def two_mebibytes(times: int = 2) -> np.ndarray:
    """Needs ``times`` MiB and one more, and returns ``times`` MiB."""
    np.ones(MIB, np.uint8)
    kept = np.ones(times * MIB, np.uint8)
    np.ones(MIB, np.uint8)
    return kept


def test_every_key_is_measured_and_what_is_not_tracked_left_out() -> None:
    found = profile_function(two_mebibytes, 2, name="two")
    assert found.keys() >= KEYS
    assert found["name"] == "two"
    mebibytes = [found[f"{key}_mb"] for key in ("memory_delta", "peak_memory", "result_size")]
    assert mebibytes == pytest.approx([2, 3, 2], abs=0.01)
    assert found["cpu_efficiency"] == found["cpu_time"] / found["wall_time"]
    calls: list[int] = []
    for warmup in (0, 1):
        calls.clear()
        found = SimpleProfiler(track_memory=False, track_cpu=False).profile(calls.append, 1, warmup=bool(warmup))
        assert len(calls) == found["runs"] + warmup
        assert found.keys() & KEYS == {"wall_time", "name"}


@pytest.mark.parametrize("track_memory", [False, True])
def test_a_decorated_function_returns_what_it_did_and_keeps_what_the_call_cost(track_memory: bool) -> None:
    calls = []

    @profile(name="making", track_memory=track_memory)
    def made(count: int) -> np.ndarray:
        """Make ones."""
        calls.append(count)
        return np.ones(count * MIB, np.uint8)

    assert (made.last_profile, made.__doc__) == (None, "Make ones.")
    assert made(3).nbytes == 3 * MIB
    assert len(calls) == 1 + track_memory, "once for time, once for memory"
    found = made.last_profile
    assert found is not None
    assert found["name"] == "making"
    assert found["wall_time"] > 0
    assert found["result_size_mb"] == 3
    assert found.get("peak_memory_mb", 3) == pytest.approx(3, abs=0.01)
    assert ("peak_memory_mb" in found) == track_memory


def test_the_context_measures_and_prints_at_exit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = two_layers(), rows()
    with ProfilerContext("MLP forward", timing_runs=8, timing_warmup=1, enable_flops=True) as context:
        output = context.profile_function(model, args=(x,))
        assert capsys.readouterr().out == ""
    assert output.shape == (ROWS, OUTPUTS)
    assert context.timing is not None
    assert context.timing.n == 8
    assert context.flops == 2 * ROWS * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    assert context.memory is not None
    assert context.memory["peak_mb"] > 0
    said = capsys.readouterr().out
    rate = context.flops / context.timing.median / 1e9
    parts = ("MLP forward", "memory:", f"FLOPs: {context.flops:,}", f"{rate:.2f} GFLOP/s", f"{rate * 1e9 / PEAK:.1%}")
    assert all(part in said for part in parts)
    monkeypatch.setattr(store, "kept_ceilings", lambda threads: None)
    assert not any("peak" in sentence for sentence in context.insights()), "nobody measured it"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: two_layers()(rows()), f"FLOPs: {2 * ROWS * (INPUTS * HIDDEN + HIDDEN * OUTPUTS):,} in ops, "),
        (lambda: Mystery()(rows()), "FLOPs not counted: there is no formula for the op mystery"),
        (lambda: sum(range(100)), "FLOPs not counted: no op of the framework ran"),
    ],
)
@pytest.mark.parametrize("body", [False, True])
def test_the_report_has_flops_or_why_it_has_none(
    call: Callable[[], object], said: str, body: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProfilerContext("it", timing_runs=6, enable_memory=False) as context:
        if body:
            call()
        else:
            context.profile_function(call)
    assert said in capsys.readouterr().out
    assert ("flops" in context.results) == ("not counted" not in said)
    assert context.flop_counter is not None
    assert context.results.get("flops") in (None, context.flop_counter.total_flops)


def that_holds_itself() -> dict[str, object]:
    array = np.ones(MIB, np.uint8)
    itself: list[object] = [array, (array[:5], Tensor(array))]
    itself.append(itself)
    by_name: dict[str, object] = {"list": itself, "other": (np.zeros(5, np.int8),)}
    by_name["dict"] = by_name
    return by_name


@pytest.mark.parametrize(
    ("result", "size"),
    [
        (that_holds_itself(), MIB + 5),
        (None, 0),
        (["x" * MIB] * 10, sys.getsizeof("x" * MIB)),
        ({"a": b"x" * MIB, "b": [b"x" * MIB]}, 2 * sys.getsizeof(b"x" * MIB)),
        ((bytearray(MIB),) * 3, sys.getsizeof(bytearray(MIB))),
        ([np.ones(MIB, np.uint8)] * 4, MIB),
        ([Tensor(np.ones(MIB, np.uint8))] * 4, MIB),
        ([["x" * 5] * 2] * 2, sys.getsizeof("x" * 5)),
        ([7, 7, 7], sys.getsizeof(7)),
    ],
    ids=["itself", "none", "texts", "bytes of two", "bytearrays", "arrays", "tensors", "lists", "numbers"],
)
def test_what_a_result_refers_to_several_times_counts_once(result: object, size: int) -> None:
    assert result_bytes(result) == size


def test_the_report_warns_of_what_a_quieter_moment_mends_and_of_nothing_else() -> None:
    """What repeats differ by, 11 % here, is no noise of these runs; runs that scatter by a third are."""
    context = ProfilerContext("made")
    conditions = Conditions(inner_loops=1, between_runs=BetweenRuns(0.11))
    calm, noisy = (
        Measurement(name, tuple(1 + step * k for k in (0, 3, -2, 4, -4, 1, -1, 2, -3, 0)), "s", conditions)
        for name, step in (("calm", 0.002), ("noisy", 0.08))
    )
    context.timing = calm
    assert context.timing.spread > 0.1
    assert context.insights() == []
    context.timing = noisy
    assert [said.split(":")[0] for said in context.insights()] == ["noisy"]


@pytest.mark.parametrize("body", [False, True])
def test_the_report_names_the_part_that_takes_most_of_the_time(
    body: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Profile((event("linear", 0, 400), event("relu", 400, 500)), (), 0, 600, 1, 1, 1)
    monkeypatch.setattr(function_profile, "recording", lambda timed=True: nullcontext(SimpleNamespace(profile=made)))
    with ProfilerContext("product", timing_runs=6, timing_warmup=0, enable_memory=False) as context:
        if not body:
            context.profile_function(int)
    assert context.part is not None
    assert (context.part.name, context.part.n) == ("linear (forward)", 1 if body else 6)
    assert context.part.median == pytest.approx(4 / 6)
    assert "largest part: linear (forward), 67%" in capsys.readouterr().out


def test_memory_that_is_left_behind_is_said() -> None:
    kept = []
    context = ProfilerContext("leaving", timing_runs=6)
    context.profile_function(lambda: kept.append(np.ones(MIB, np.uint8)))
    assert "it leaves more memory than its result takes" in context.insights()


def test_a_body_is_reported_as_the_one_run_that_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = two_layers(), rows()
    with ProfilerContext("body", enable_flops=True) as context:
        model(x)
    assert context.flops == 2 * ROWS * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    assert (context.memory, context.timing_stats["runs"]) == (None, 1)
    said = capsys.readouterr().out
    assert re.match(r"body: \d+\.\d{4} ms, one run", said)
    assert f"FLOPs: {context.flops:,} in ops" in said
    with pytest.raises(ZeroDivisionError), ProfilerContext("broken"):
        _ = 1 / 0
    assert capsys.readouterr().out == "", "an error is not reported as a time"


def test_what_was_counted_by_hand_stands_in_the_report_with_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    with ProfilerContext("by hand", timing_runs=1, timing_warmup=0, enable_memory=False) as context:
        assert context.profile_function(sum, args=([1.0, 2.0],)) == 3
        assert len(context.insights()) == 1, "one run is said to be few"
        context.add_flop_count(1_200, {"linear": 1_000, "bias": 200})
    said = capsys.readouterr().out
    assert "FLOPs: 1,200 counted by hand" in said
    assert "linear: 1,000" in said
    for flops, parts, named in ((5, {"linear": 4}, "flops"), (-1, None, "least")):
        with pytest.raises(ValueError, match=named):
            context.add_flop_count(flops, parts)


def test_what_is_switched_off_is_absent(capsys: pytest.CaptureFixture[str]) -> None:
    with ProfilerContext("it", timing_runs=6, enable_memory=False, enable_flops=False) as context:
        context.profile_function(two_layers(), args=(rows(),))
    assert (context.memory_profiler, context.flop_counter) == (None, None)
    assert (context.memory, context.memory_stats, context.flops) == (None, {}, None)
    assert context.results.keys() == {"timing"}
    said = capsys.readouterr().out
    assert "memory:" not in said
    assert "FLOP" not in said


def test_nothing_is_said_before_anything_was_measured() -> None:
    context = ProfilerContext("empty")
    assert context.insights() == []
    assert context.timing_stats == {}
    with pytest.raises(RuntimeError, match="call profile_function"):
        context.generate_report()
    for bad in ({"timing_runs": 0}, {"timing_warmup": -1}):
        with pytest.raises(ValueError, match="least"):
            ProfilerContext("bad", **bad)  # type: ignore[arg-type]
