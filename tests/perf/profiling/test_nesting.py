"""Instruments around what is no plain call, in themselves, in one another, and crossing one another."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.core.test_dispatch import later, numbers, stream
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.call_tree import call_tree
from tinytorch.perf.measuring import interleave, measure
from tinytorch.perf.profiling import (
    MemoryProfiler,
    MemoryTracker,
    Profiler,
    ProfilerContext,
    SimpleProfiler,
    Timer,
    profile,
    region,
)

MIB = 2**20


class Yields:
    def __call__(self) -> Iterator[int]:
        yield 1


WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "profile": profile,
    "profile with arguments": profile(name="it", track_memory=True),
    "SimpleProfiler": lambda function: SimpleProfiler().profile(function),
    "ProfilerContext": lambda function: ProfilerContext("it").profile_function(function),
    "Timer": lambda function: Timer().measure(function, runs=1),
    "MemoryProfiler": lambda function: MemoryProfiler().profile(function),
    "measure": lambda function: measure(function, "it", repeats=6),
    "interleave": lambda function: interleave({"it": function}, repeats=6),
}


@pytest.mark.parametrize("function", [numbers, later, stream, functools.partial(numbers), Yields()])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_has_done_nothing_when_it_returns_is_not_measured(wrapper: str, function: Any) -> None:
    with pytest.raises(TypeError, match=getattr(function, "__name__", type(function).__name__)):
        WRAPPERS[wrapper](function)


@pytest.mark.parametrize(("track_memory", "runs"), [(False, 11), (True, 22)])
def test_a_function_that_calls_itself_is_measured_as_one_call(track_memory: bool, runs: int) -> None:
    calls = []

    @profile(track_memory=track_memory)
    def depth(n: int) -> int:
        calls.append(n)
        time.sleep(1e-3)
        return 0 if n == 0 else depth(n - 1)

    depth(10)
    assert len(calls) == runs
    assert depth.last_profile is not None
    assert depth.last_profile["wall_time"] > 11e-3


def test_nothing_is_kept_of_a_call_that_raised() -> None:
    @profile
    def inverse(x: float) -> float:
        return 1 / x

    inverse(1)
    assert inverse.last_profile is not None
    with pytest.raises(ZeroDivisionError):
        inverse(0)
    assert inverse.last_profile is None


@pytest.mark.parametrize("make", [Timer, MemoryTracker, Profiler, functools.partial(ProfilerContext, "it")])
def test_an_instrument_is_not_entered_in_itself_but_again_afterwards(make: Callable[[], Any]) -> None:
    instrument = make()
    with instrument, pytest.raises(RuntimeError, match="another"), instrument:
        pass
    with instrument:
        pass


def test_trackers_in_one_another_and_crossing_keep_their_own_peaks() -> None:
    outer, inner = MemoryTracker(), MemoryTracker()
    outer.__enter__()
    np.ones(4 * MIB, np.uint8)
    held = np.ones(MIB, np.uint8)
    inner.__enter__()
    np.ones(2 * MIB, np.uint8)
    found = [inner.peak_bytes, outer.peak_bytes]
    outer.__exit__(None, None, None)
    np.ones(3 * MIB, np.uint8)
    inner.__exit__(None, None, None)
    found += [inner.peak_bytes, outer.peak_bytes]
    assert np.divide(found, held.nbytes) == pytest.approx([2, 4, 3, 4], abs=0.05)
    with MemoryTracker() as whole:
        with Profiler(memory=True):
            y = Tensor(np.ones(MIB // 4, np.float32)) * 2.0
        del y
    assert whole.peak_usage == pytest.approx(2, abs=0.1)


@pytest.mark.usefixtures("no_collector")
def test_regions_that_cross_have_the_time_from_their_own_begin_to_their_own_end() -> None:
    with Profiler() as profiler:
        first, second = region("first"), region("second")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
    one, other = profiler.run.regions
    assert one.start < other.start < one.end < other.end
    frames = [*call_tree(profiler.run).all()]
    found = {name: [(f.calls, f.self_ns) for f in frames if f.name == name and f.calls] for name in ("first", "second")}
    assert found["first"] == [(1, other.start - one.start)]
    assert sum(frame.self_ns for frame in frames if frame.name == "second") == other.end - other.start
    assert [calls for calls, _ in found["second"]] == [1]
    assert sum(frame.self_ns for frame in frames) == profiler.run.end - profiler.run.start
    assert sum(row.self_seconds or 0 for row in profiler.attribution()) == pytest.approx(profiler.run.wall_seconds)
