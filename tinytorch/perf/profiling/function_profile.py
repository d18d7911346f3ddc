"""Profiles of a plain function, as a student first meets them: time, processor time, memory, result."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast, overload

import numpy as np

from tinytorch.core.contexts import checked_prompt
from tinytorch.core.op import owner_of
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.events.stream import Profile, recording
from tinytorch.perf.machine import store
from tinytorch.perf.measuring import Measurement, Timer, collector_off, current_blas_threads
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.memory import MemoryProfiler, Tracing
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.measuring.timer import milliseconds_of, report_lines
from tinytorch.perf.profiling.breakdown import attention_seconds
from tinytorch.perf.profiling.repeated import own_times
from tinytorch.perf.profiling.shares import share

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

#: A single timing lasts at least this long in seconds, since the processor's clock is coarser than the wall's.
_LEAST_SECONDS = 1e-3
#: Half-width over the median, of the interval that the samples alone have, above which a report calls them noisy: what
#: separate processes differ by besides is in every interval, and no quieter moment would mend it.
_NOISY = 0.05


def result_bytes(result: Any) -> int:
    """Return the bytes of a result: of the memory of its arrays, each buffer once, else of the object itself, once.

    Looks into Tensors, arrays, and tuples, lists and dicts of these.
    """
    sizes: dict[int, int] = {}
    seen: dict[int, Any] = {}
    stack = [result]
    while stack:
        value = stack.pop()
        if value is None or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Tensor):
            stack.append(value.data)
        elif isinstance(value, np.ndarray):
            owner = owner_of(value)
            sizes[id(owner)] = owner.nbytes
        elif isinstance(value, (tuple, list)):
            stack.extend(value)
        elif isinstance(value, dict):
            stack.extend(value.values())
        else:
            sizes[id(value)] = sys.getsizeof(value)
    return sum(sizes.values())


class SimpleProfiler:
    """Wall time, processor time, memory and result size of a function, all measured.

    Time and memory come from different runs, because tracing memory slows a program down: the function runs
    once to warm up, until a millisecond is over for time, and once more for memory.

    Args:
        track_memory: measure memory; without it the three ``*_mb`` keys are left out.
        track_cpu: measure processor time; without it ``cpu_time`` and ``cpu_efficiency`` are left out.

    Examples:
        >>> from tinytorch.perf.profiling import SimpleProfiler
        >>> found = SimpleProfiler().profile(sorted, [3, 1, 2], name="sort")
        >>> found["name"], found["wall_time"] > 0
        ('sort', True)
    """

    def __init__(self, track_memory: bool = True, track_cpu: bool = True) -> None:
        self.track_memory, self.track_cpu = track_memory, track_cpu

    def profile(
        self, func: Callable[..., Any], *args: Any, name: str | None = None, warmup: bool = True, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the time and memory of ``func(*args, **kwargs)``.

        Keys: ``name``; ``wall_time`` and ``cpu_time`` (of all threads) in seconds of one call, averaged over
        ``runs`` calls; ``cpu_efficiency`` = cpu_time / wall_time, near 1 when one core is busy and above it
        when several are; ``memory_delta_mb`` that one call leaves with its result alive, ``peak_memory_mb``
        that it needs at its worst, ``result_size_mb``, all in MiB; and ``result``.
        """
        call = functools.partial(checked_prompt(func, "SimpleProfiler.profile"), *args, **kwargs)
        if warmup:
            call()
        shown = name or str(getattr(func, "__name__", type(func).__name__))
        costs, result = self.measure(call, shown, _LEAST_SECONDS)
        return {**costs, "result": result}

    def measure(self, call: Callable[[], R], name: str, least_seconds: float) -> tuple[dict[str, Any], R]:
        """Return the keys of `profile` without ``result``, from calls until so many seconds are over, and the result.

        With ``track_memory`` one more call is made.
        """
        found: dict[str, Any] = {"name": name}
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
        if self.track_memory:
            with Tracing() as tracing:
                held = call()
                left, peak = tracing.read()
                del held
            found["memory_delta_mb"] = (left - tracing.baseline) / MIB
            found["peak_memory_mb"] = (peak - tracing.baseline) / MIB
            found["result_size_mb"] = result_bytes(result) / MIB
        return found, result


def profile_function(func: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return `SimpleProfiler().profile(func, *args, **kwargs)`, with the same ``name`` and ``warmup``.

    Examples:
        >>> from tinytorch.perf.profiling import profile_function
        >>> found = profile_function(sorted, [3, 1, 2])
        >>> found["name"], "peak_memory_mb" in found
        ('sorted', True)
    """
    return SimpleProfiler().profile(func, *args, **kwargs)


class Profiled(Protocol[P, R_co]):
    """A function under `@profile`: called as before, and ``last_profile`` holds what its last call cost."""

    last_profile: dict[str, Any] | None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function and return what it returns."""


@overload
def profile(func: Callable[P, R], /) -> Profiled[P, R]: ...
@overload
def profile(*, name: str | None = None, track_memory: bool = False) -> Callable[[Callable[P, R]], Profiled[P, R]]: ...
def profile(func: Callable[P, R] | None = None, /, *, name: str | None = None, track_memory: bool = False) -> Any:
    """Decorate a function so that ``function.last_profile`` has the time and memory of its last call.

    The keys are those of `SimpleProfiler.profile` without ``result``. Each call runs the function once, so that what
    it does to the world is done once: time and memory are never measured in one run, so that ``track_memory=True``
    runs it a second time, for the two keys of memory. Of a function that calls itself the outermost call is measured;
    after one that raised ``last_profile`` is None.

    Raises:
        TypeError: if it is a generator or coroutine function, which has done nothing yet when it returns.

    Examples:
        >>> from tinytorch.perf.profiling import profile
        >>> @profile(name="sorting")
        ... def sort(numbers):
        ...     return sorted(numbers)
        >>> sort([3, 1, 2])
        [1, 2, 3]
        >>> sort.last_profile["name"], sort.last_profile["wall_time"] > 0
        ('sorting', True)
    """

    def decorated(function: Callable[P, R]) -> Profiled[P, R]:
        profiler = SimpleProfiler(track_memory=track_memory)
        checked_prompt(function, "@profile")
        shown = name or str(getattr(function, "__name__", type(function).__name__))
        is_running = ContextVar("is_running", default=False)

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            if is_running.get():  # a call in a call is part of that one
                return function(*args, **kwargs)
            kept.last_profile = None
            is_running.set(True)
            try:
                costs, result = profiler.measure(lambda: function(*args, **kwargs), shown, 0.0)
            finally:
                is_running.set(False)
            kept.last_profile = {**costs, "result_size_mb": result_bytes(result) / MIB}
            return result

        kept = cast(Profiled[P, R], wrapper)
        kept.last_profile = None
        return kept

    return decorated if func is None else decorated(func)


class ProfilerContext:
    """``with ProfilerContext("name") as p: p.profile_function(func, args)``; the report prints at exit.

    A body that does not call `profile_function`, as ``with ProfilerContext("name"): model(x)``, is itself what is
    reported: the time of this one run as it was recorded, without an interval, and the FLOPs of its ops. Memory is not
    measured then, because tracing it would slow down the run that is timed.

    Args:
        name: what the report calls it.
        timing_runs: samples, and recorded runs after them.
        timing_warmup: calls before the first of them.
        enable_memory: measure memory in runs of their own.
        enable_flops: count FLOPs of the ops in a recorded run, and report them with the rate.

    ``timing``, ``memory``, ``flops`` and ``flops_by_hand`` hold what was measured or given, None where nothing was;
    ``timing_stats`` and ``memory_stats`` are timing and memory as `Timer.measure` and `MemoryProfiler.profile` return
    them, empty where nothing was, and ``results`` is all of these that there are. ``timer``, ``memory_profiler`` and
    ``flop_counter`` are what measured and counted; the last two are None where that is not enabled. ``part`` is the
    largest share of the recorded runs' time, named after its op or what took time between ops; None where no op ran.
    ``attention`` is the share of attention, its projections and the Python between its ops included; None where none
    ran.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.profiling import ProfilerContext
        >>> with ProfilerContext("layer", timing_runs=6) as p:  # doctest: +ELLIPSIS
        ...     y = p.profile_function(Linear(8, 4), args=(Tensor([[1.0] * 8]),))
        layer: median ...
        >>> y.shape
        (1, 4)
    """

    def __init__(
        self,
        name: str = "Operation",
        timing_runs: int = 10,
        timing_warmup: int = 2,
        enable_memory: bool = True,
        enable_flops: bool = True,
    ) -> None:
        if timing_runs < 1:
            raise ValueError(f"timing_runs must be at least 1, not {timing_runs}")
        if timing_warmup < 0:
            raise ValueError(f"timing_warmup must be at least 0, not {timing_warmup}")
        self.name = name
        self.timing_runs, self.timing_warmup = timing_runs, timing_warmup
        self.enable_memory, self.enable_flops = enable_memory, enable_flops
        self.timer = Timer()
        self.memory_profiler = MemoryProfiler() if enable_memory else None
        self.flop_counter = FLOPCounter(uncounted="list") if enable_flops else None
        self.timing: Measurement | None = None
        self.memory: dict[str, Any] | None = None
        self.part: Measurement | None = None
        self.attention: Measurement | None = None
        self.flops: int | None = None
        self.flops_by_hand: int | None = None
        self._parts_by_hand: dict[str, int] = {}
        self._body = ExitStack()
        self._running = False

    def __enter__(self) -> Self:
        if self._running:
            raise RuntimeError("this ProfilerContext is running already: use another one for a body inside its body")
        self._running = True
        self._body = ExitStack()
        self._recording = self._body.enter_context(recording(timed=False))
        self._began = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = (time.perf_counter_ns() - self._began) * 1e-9
        self._running = False
        self._body.close()
        if kind is not None:
            return
        if self.timing is None:
            self.timing = Measurement(self.name, (seconds,), "s", Conditions(inner_loops=1, warmup_runs=0))
            self._read([self._recording.profile])
        self.generate_report()

    @property
    def timing_stats(self) -> dict[str, float]:
        """Times in ms, with the keys of `Timer.measure`; empty before the first measurement."""
        return {} if self.timing is None else milliseconds_of(self.timing)

    @property
    def memory_stats(self) -> dict[str, Any]:
        """Memory; empty before the first measurement, and without ``enable_memory``."""
        return dict(self.memory or {})

    @property
    def results(self) -> dict[str, Any]:
        """All available results: ``timing``, ``memory``, ``flops`` and ``flops_by_hand``."""
        values = {
            "timing": self.timing_stats or None,
            "memory": self.memory,
            "flops": self.flops,
            "flops_by_hand": self.flops_by_hand,
        }
        return {name: value for name, value in values.items() if value is not None}

    def add_flop_count(self, flops: int, breakdown: Mapping[str, int] | None = None) -> None:
        """Add FLOPs of a call that were counted by hand, and their parts, to the report, next to those of its ops.

        Raises:
            ValueError: if ``flops`` is below 0, or the parts do not sum to it.
        """
        parts = dict(breakdown or {})
        if flops < 0:
            raise ValueError(f"flops must be at least 0, not {flops}")
        if parts and sum(parts.values()) != flops:
            raise ValueError(f"breakdown must sum to the {flops} flops, not to {sum(parts.values())}")
        self.flops_by_hand = (self.flops_by_hand or 0) + flops
        self._parts_by_hand |= parts

    def profile_function(
        self, func: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Measure ``func(*args, **kwargs)`` and return what it returns."""
        checked_prompt(func, "profile_function")
        named = dict(kwargs or {})
        self._body.close()  # what it does to be seen by an observer is no part of the function
        self.timer.measure(func, self.timing_warmup, self.timing_runs, args, named)
        self.timing = self.timer.measurement
        self.memory = self.memory_profiler.profile(func, args, named, calls=1) if self.memory_profiler else None
        profiles = []
        for _ in range(self.timing_runs):
            with recording() as recorded:
                result = func(*args, **named)
            profiles.append(recorded.profile)
        self._read(profiles)
        return result

    def _read(self, profiles: Sequence[Profile]) -> None:
        """Find the largest part and attention's of recorded runs, and count the FLOPs of the last."""
        if self.flop_counter is not None:
            self.flop_counter.reset()
            flops = self.flop_counter.count_run(profiles[-1])
            self.flops = None if self.flop_counter.uncounted_ops or not profiles[-1].events else flops
        if not all(profile.events for profile in profiles):
            return
        runs = [own_times(profile) for profile in profiles]
        largest = max(runs[0], key=lambda name: sum(run.get(name, 0.0) for run in runs))
        walls, of = [profile.wall_seconds for profile in profiles], "the run's time"
        conditions = Conditions(blas_threads=profiles[0].blas_threads or "unknown")
        self.part = share(largest, [run.get(largest, 0.0) for run in runs], walls, conditions, of)
        within = [attention_seconds(profile) for profile in profiles]
        self.attention = share("attention", within, walls, conditions, of) if any(within) else None

    def generate_report(self) -> None:
        """Print time, memory, FLOPs, rate and the insights.

        Raises:
            RuntimeError: if nothing was measured.
        """
        if self.timing is None:
            raise RuntimeError("generate_report needs a measurement: call profile_function(func) first")
        print("\n".join(report_lines(self.timing, self.name)))
        if self.memory is not None:
            print(f"  memory: {self.memory['needed_mb']:.3f} MiB at most, {self.memory['allocated_mb']:.3f} MiB left")
        for flops, of in ((self.flops, "in ops"), (self.flops_by_hand, "counted by hand")):
            if flops is not None:
                print(f"  FLOPs: {flops:,} {of}, {flops / self.timing.median * 1e-9:.2f} GFLOP/s")
        if self.flop_counter is not None and self.flops is None and self.flops_by_hand is None:
            print(f"  FLOPs not counted: {_why_uncounted(self.flop_counter)}")
        for part, flops in self._parts_by_hand.items():
            print(f"    {part}: {flops:,}")
        for insight in self.insights():
            print(f"  {insight}")

    def insights(self) -> list[str]:
        """Return sentences that follow from the measurement, if there are any.

        The share of the machine's peak is among them where the peak was measured before and kept.
        """
        if self.timing is None:
            return []
        said = []
        if self.part is not None:
            said.append(f"largest part: {self.part.name}, {_of_the_time(self.part)}")
        if self.attention is not None:
            said.append(f"attention: {_of_the_time(self.attention)}")
        alone = replace(self.timing, conditions=replace(self.timing.conditions, between_runs=None))
        spread = alone.interval.half_width / alone.median
        if self.timing.n == 1:
            said.append("one run is too few for an interval; six would do")
        elif spread > _NOISY:
            said.append(f"noisy: these runs alone leave ±{spread:.0%}; a quieter moment or more runs would leave less")
        flops = self.flops_by_hand if self.flops is None else self.flops
        known = store.kept_ceilings(current_blas_threads()) if flops else None
        if flops and known is not None:
            share = flops / self.timing.median / known.fp32_peak.median
            said.append(f"{share:.1%} of this machine's FP32 peak, {known.threads} threads")
        if self.memory is not None and self.memory["allocated_mb"] > result_bytes(self.memory["result"]) / MIB + 0.1:
            said.append("it leaves more memory than its result takes")
        return said


def _why_uncounted(counter: FLOPCounter) -> str:
    """Return in words why the FLOPs of a run are not known."""
    if not counter.uncounted_ops:
        return "no op of the framework ran"
    return f"there is no formula for the op {' or the op '.join(counter.uncounted_ops)}"


def _of_the_time(share: Measurement) -> str:
    """Return a share in words, with its interval where several runs give one."""
    ends = f" ({share.interval.low:.0%} to {share.interval.high:.0%})" if share.n > 1 else ""
    return f"{share.median:.0%}{ends} of the time"
