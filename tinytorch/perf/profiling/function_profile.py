"""Profiles of a plain function, as a student first meets them: time, processor time, memory, result."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast, overload

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.array_life import owner_of
from tinytorch.perf.events.flops import flops_of
from tinytorch.perf.events.stream import recording
from tinytorch.perf.machine import store
from tinytorch.perf.measuring import Measurement, Timer, collector_off, current_blas_threads
from tinytorch.perf.measuring.memory import MemoryProfiler, Tracing
from tinytorch.perf.measuring.model_io import MIB

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

#: A single timing lasts at least this long in seconds, since the processor's clock is coarser than the wall's.
_LEAST_SECONDS = 1e-3
#: Half-width of the interval over the median above which a report calls its timing noisy.
_NOISY = 0.05


def result_bytes(result: Any) -> int:
    """Return the bytes of a result: of the memory of its arrays, each buffer once, else of the object itself.

    Looks into Tensors, arrays, and tuples, lists and dicts of these.
    """
    buffers: dict[int, int] = {}
    others = 0
    stack = [result]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor):
            stack.append(value.data)
        elif isinstance(value, np.ndarray):
            owner = owner_of(value)
            buffers[id(owner)] = owner.nbytes
        elif isinstance(value, (tuple, list)):
            stack.extend(value)
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif value is not None:
            others += sys.getsizeof(value)
    return sum(buffers.values()) + others


class SimpleProfiler:
    """Wall time, processor time, memory and result size of a function, all measured.

    Time and memory come from different runs, because tracing memory slows a program down: the function runs
    once to warm up, until a millisecond is over for time, and once more for memory.

    Args:
        track_memory: measure memory; without it the three ``*_mb`` keys are left out.
        track_cpu: measure processor time; without it ``cpu_time`` and ``cpu_efficiency`` are left out.
    """

    def __init__(self, track_memory: bool = True, track_cpu: bool = True) -> None:
        self.track_memory, self.track_cpu = track_memory, track_cpu

    def profile(
        self, func: Callable[..., Any], *args: Any, name: str | None = None, warmup: bool = True, **kwargs: Any
    ) -> dict[str, Any]:
        """Return what ``func(*args, **kwargs)`` costs.

        Keys: ``name``; ``wall_time`` and ``cpu_time`` (of all threads) in seconds of one call, averaged over
        ``runs`` calls; ``cpu_efficiency`` = cpu_time / wall_time, near 1 when one core is busy and above it
        when several are; ``memory_delta_mb`` that one call leaves with its result alive, ``peak_memory_mb``
        that it needs at its worst, ``result_size_mb``, all in MiB; and ``result``.
        """
        call = functools.partial(func, *args, **kwargs)
        if warmup:
            call()
        found: dict[str, Any] = {"name": name or getattr(func, "__name__", type(func).__name__)}
        result = self._time(call, found)
        if self.track_memory:
            self._trace(call, found)
            found["result_size_mb"] = result_bytes(result) / MIB
        found["result"] = result
        return found

    def once(self, func: Callable[..., R], name: str) -> tuple[R, dict[str, Any]]:
        """Return the result of a single timed run of ``func()`` and, if asked for, memory from one more run."""
        found: dict[str, Any] = {"name": name}
        result = self._time(func, found, least_seconds=0.0)
        if self.track_memory:
            self._trace(func, found)
            found["result_size_mb"] = result_bytes(result) / MIB
        return result, found

    def _time(self, call: Callable[[], R], found: dict[str, Any], least_seconds: float = _LEAST_SECONDS) -> R:
        runs = 0
        with collector_off():
            wall, processor = time.perf_counter_ns(), time.process_time_ns()
            while True:
                result = call()
                runs += 1
                wall_now = time.perf_counter_ns()
                if (wall_now - wall) * 1e-9 >= least_seconds:
                    break
            processor_now = time.process_time_ns()
        found["wall_time"] = (wall_now - wall) * 1e-9 / runs
        if self.track_cpu:
            found["cpu_time"] = (processor_now - processor) * 1e-9 / runs
            found["cpu_efficiency"] = found["cpu_time"] / found["wall_time"]
        found["runs"] = runs
        return result

    @staticmethod
    def _trace(call: Callable[[], Any], found: dict[str, Any]) -> None:
        with Tracing() as tracing:
            result = call()
            left, peak = tracing.read()
            del result
        found["memory_delta_mb"] = (left - tracing.baseline) / MIB
        found["peak_memory_mb"] = (peak - tracing.baseline) / MIB


def profile_function(func: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return `SimpleProfiler().profile(func, *args, **kwargs)`; ``name`` and ``warmup`` are its own."""
    return SimpleProfiler().profile(func, *args, **kwargs)


class Profiled(Protocol[P, R_co]):
    """A function under `@profile`: called as before, and ``last_profile`` holds what its last call cost."""

    last_profile: dict[str, Any] | None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function and return what it returns."""


@overload
def profile(func: Callable[P, R], /) -> Profiled[P, R]: ...
@overload
def profile(*, name: str | None = None, track_memory: bool = True) -> Callable[[Callable[P, R]], Profiled[P, R]]: ...
def profile(func: Callable[P, R] | None = None, /, *, name: str | None = None, track_memory: bool = True) -> Any:
    """Decorate a function: it returns what it did, and ``function.last_profile`` is what its last call cost.

    The keys are those of `SimpleProfiler.profile` without ``result``. Each call runs the function once for
    time and once more for memory, because they are never measured in one run. Give ``track_memory=False`` to
    run it once, where a second run would do harm.
    """

    def decorated(function: Callable[P, R]) -> Profiled[P, R]:
        profiler = SimpleProfiler(track_memory=track_memory)
        shown = name or function.__name__

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            result, found = profiler.once(lambda: function(*args, **kwargs), shown)
            kept.last_profile = found
            return result

        kept = cast(Profiled[P, R], wrapper)
        kept.last_profile = None
        return kept

    return decorated if func is None else decorated(func)


class ProfilerContext:
    """``with ProfilerContext("name") as p: p.profile_function(func, args)``; the report prints at exit.

    Args:
        name: what the report calls it.
        timing_runs, timing_warmup: samples, and calls before them; see `timing.sample`.
        enable_memory: measure memory in runs of their own.
        enable_flops: count FLOPs of the ops in one more run; with it the report has the rate.

    After `profile_function`, ``timing``, ``memory`` and ``flops`` hold what was measured, None where it was not.
    """

    def __init__(
        self,
        name: str = "Operation",
        timing_runs: int = 10,
        timing_warmup: int = 2,
        enable_memory: bool = True,
        enable_flops: bool = False,
    ) -> None:
        if timing_runs < 1:
            raise ValueError(f"timing_runs must be at least 1, not {timing_runs}")
        if timing_warmup < 0:
            raise ValueError(f"timing_warmup must be at least 0, not {timing_warmup}")
        self.name = name
        self.timing_runs, self.timing_warmup = timing_runs, timing_warmup
        self.enable_memory, self.enable_flops = enable_memory, enable_flops
        self.timing: Measurement | None = None
        self.memory: dict[str, Any] | None = None
        self.flops: int | None = None
        self._timer = Timer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.timing is not None:
            self.print_report()

    def profile_function(
        self, func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Measure ``func(*args, **kwargs)`` and return what it returns.

        Raises:
            UncountedError: with ``enable_flops``, if an op declares no formula.
        """
        named = dict(kwargs or {})
        self._timer.measure(func, self.timing_warmup, self.timing_runs, args, named)
        self.timing = self._timer.measurement
        self.memory = MemoryProfiler().profile(func, args, named, calls=1) if self.enable_memory else None
        if not self.enable_flops:
            return self.memory["result"] if self.memory else func(*args, **named)
        with recording(timed=False) as recorded:
            result = func(*args, **named)
        self.flops = flops_of(recorded.profile)
        return result

    def print_report(self) -> None:
        """Print time, memory, FLOPs, rate and what follows from them.

        Raises:
            RuntimeError: if nothing was measured.
        """
        if self.timing is None:
            raise RuntimeError("print_report needs a measurement: call profile_function(func) first")
        self._timer.print_report(self.name)
        if self.memory is not None:
            print(f"  memory: {self.memory['allocated_mb']:.3f} MiB at most, {self.memory['retained_mb']:.3f} MiB left")
        if self.flops is not None:
            rate = self.flops / self.timing.median * 1e-9
            print(f"  FLOPs: {self.flops:,} in ops, {rate:.2f} GFLOP/s")
        for insight in self.insights():
            print(f"  {insight}")

    def insights(self) -> list[str]:
        """Return sentences that follow from the measurement; none where nothing does.

        The share of the machine's peak is among them where the peak was measured before and kept.
        """
        if self.timing is None:
            return []
        said = []
        if self.timing.n < 6:
            said.append(f"{self.timing.n} runs are too few for a 95 % interval; six would do")
        elif self.timing.spread > _NOISY:
            said.append(f"noisy: the median is known to ±{self.timing.spread:.0%} only")
        known = store.kept_ceilings(current_blas_threads()) if self.flops else None
        if self.flops and known is not None:
            share = self.flops / self.timing.median / known.fp32_peak.median
            said.append(f"{share:.1%} of this machine's FP32 peak, {known.threads} threads")
        if self.memory is not None and self.memory["retained_mb"] > result_bytes(self.memory["result"]) / MIB + 0.1:
            said.append("it leaves more memory than its result takes")
        return said
