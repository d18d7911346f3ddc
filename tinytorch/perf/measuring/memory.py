"""Memory of a function by tracemalloc: what it needs, what it leaves, and whether repeated calls leak."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

import numpy as np

from tinytorch.core.contexts import checked_prompt
from tinytorch.perf.measuring.model_io import MIB

_reset_peak = tracemalloc.reset_peak
#: Fewer bytes than this, left by what `uncounted` ran, are not worth a collection of garbage.
_LITTLE = 100_000


class Tracing:
    """Traces allocations in its body; ``baseline`` is the bytes that were traced at entry.

    tracemalloc sees NumPy's arrays to the byte and Python's objects, those of all threads of the process; it does not
    see BLAS work space. If tracing was on, it stays on with all that it knew. Reading peaks means resetting the one
    that tracemalloc keeps; at exit the caller's is raised back to what it would have been, by an allocation of that
    size that nothing touches. Bodies may lie in one another, and end in any order. If a body calls
    ``tracemalloc.reset_peak()``, the peak before that counts nevertheless.

    Attributes:
        highest: most bytes traced at any moment since entry, as far as it was read.
        current: bytes traced when it was last read.
        own_session: whether tracing was off before, so that whatever is traced was allocated in the body.
    """

    #: All that are open, and the peak of a caller who traced before the first of them, None if nobody did.
    _open: ClassVar[list[Tracing]] = []
    _callers_peak: ClassVar[int | None] = None
    #: Whether the body of `uncounted` runs.
    _paused: ClassVar[bool] = False

    def __enter__(self) -> Self:
        self.own_session = not tracemalloc.is_tracing()
        if self.own_session:
            tracemalloc.start(1)
        if not Tracing._open:
            Tracing._callers_peak = None if self.own_session else tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak = _keep_peaks
        self._mark = bytearray(1)  # no longer traced once tracemalloc was stopped, or its traces were cleared
        self._uncounted = 0
        self._reset()
        self.baseline = tracemalloc.get_traced_memory()[0]
        if self.own_session:  # all that is traced so far is this object's
            self._uncounted, self.baseline = self.baseline, 0
        self.highest = self.current = self.baseline
        self._kept_peak = 0
        Tracing._open.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None or self._is_whole():
                self.read()
        finally:
            Tracing._open.remove(self)
            if not Tracing._open:
                self._end_session()

    def _end_session(self) -> None:
        tracemalloc.reset_peak = _reset_peak
        if Tracing._callers_peak is None:
            tracemalloc.stop()
        elif tracemalloc.is_tracing():
            _raise_peak(max(Tracing._callers_peak, self.highest + self._uncounted))

    def _is_whole(self) -> bool:
        """Return whether all that was allocated since the entry is still traced."""
        return tracemalloc.get_object_traceback(self._mark) is not None

    def read(self) -> tuple[int, int]:
        """Return bytes traced now and the most since the last `restart_peak` (or entry), without what is `uncounted`.

        Raises:
            RuntimeError: if the body stopped tracemalloc or cleared its traces.
        """
        current, peak = tracemalloc.get_traced_memory()
        if not self._is_whole():
            raise RuntimeError(
                "the code that was measured stopped tracemalloc or cleared its traces, so its memory is not known: "
                "measure it without its own use of tracemalloc"
            )
        peak = max(peak - self._uncounted, self._kept_peak)
        self.highest = max(self.highest, peak)
        self.current = current - self._uncounted
        return self.current, peak

    def restart_peak(self) -> int:
        """Let the peak start anew from now; return bytes traced now."""
        current, _ = self.read()
        self._kept_peak = 0
        self._reset()
        return current

    def _reset(self) -> None:
        """Reset tracemalloc's peak, which the others that are open keep."""
        _keep_peaks(self)


def _keep_peaks(but: Tracing | None = None) -> None:
    """Reset tracemalloc's peak, after all measurements that are open took it over, and the caller's with them."""
    for tracing in Tracing._open:
        if tracing is not but:
            tracing._kept_peak = tracing.read()[1]
    if Tracing._callers_peak is not None:
        Tracing._callers_peak = max(Tracing._callers_peak, tracemalloc.get_traced_memory()[1])
    _reset_peak()


@contextmanager
def uncounted() -> Iterator[None]:
    """Keep what the body allocates out of all measurements that are open: what a first call loads, and no other."""
    measuring = list(Tracing._open)
    if not measuring or Tracing._paused:
        yield
        return
    _keep_peaks()
    before = tracemalloc.get_traced_memory()[0]
    Tracing._paused = True
    try:
        yield
    finally:
        Tracing._paused = False
        if tracemalloc.get_traced_memory()[0] - before > _LITTLE:
            gc.collect()  # what is garbage would count as freed by the body
        for tracing in measuring:
            tracing._uncounted += tracemalloc.get_traced_memory()[0] - before
        if Tracing._callers_peak is not None:
            Tracing._callers_peak = max(Tracing._callers_peak, tracemalloc.get_traced_memory()[1])
        _reset_peak()


def _raise_peak(wanted: int) -> None:
    """Make tracemalloc's peak at least ``wanted`` bytes."""
    current, peak = tracemalloc.get_traced_memory()
    if peak < wanted:
        np.empty(wanted - current, np.uint8)


#: A call that leaves less than this many bytes more than the one before it does not count as growth.
LEAK_BYTES = 1024
#: Calls whose growth is looked at; those before them may fill caches.
LEAK_CALLS = 3
_FIRST_CALLS = 2


def leaked_bytes(after: Sequence[int]) -> int | None:
    """Return bytes lost by each call, 0 if none, or None if there are too few calls to tell.

    ``after`` holds the bytes that were traced after each of several equal calls, their results dropped. The
    rule: the first two calls may fill caches and are not looked at. It is a leak if each later call, and there
    must be at least three, leaves at least 1,024 bytes more than the call before. The answer is the smallest of these
    growths, which every call had.
    """
    if len(after) < _FIRST_CALLS + LEAK_CALLS:
        return None
    growth = [later - earlier for earlier, later in zip(after[_FIRST_CALLS - 1 :], after[_FIRST_CALLS:], strict=False)]
    return min(growth) if min(growth) >= LEAK_BYTES else 0


class MemoryProfiler:
    """Memory of a function call, measured with tracemalloc. Every ``*_mb`` is in MiB (2**20 bytes).

    ``baseline_memory`` and ``peak_memory`` are the bytes traced before the last `profile`'s call and at its worst; 0
    before there was one. ``allocations`` are the bytes that were allocated more than before, after each of its calls;
    the result of the first call is among them.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.profiling import MemoryProfiler
        >>> found = MemoryProfiler().profile(lambda: np.ones(2**20, np.uint8))  # one MiB, which is returned
        >>> round(found["peak_mb"] - found["baseline_mb"], 1), round(found["allocated_mb"], 1)
        (1.0, 1.0)
    """

    def __init__(self) -> None:
        self.baseline_memory = self.peak_memory = 0
        self.allocations: list[int] = []

    def profile(
        self,
        func: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        calls: int = _FIRST_CALLS + LEAK_CALLS,
    ) -> dict[str, Any]:
        """Run ``func(*args, **kwargs)`` ``calls`` times; return the memory that the first call needed and kept.

        Keys: ``baseline_mb`` traced before the call (0 unless the caller traces already), ``peak_mb`` the most
        during it, ``final_mb`` after it with its result alive, ``needed_mb`` = peak - baseline,
        ``allocated_mb`` = final - baseline, ``result`` of the first call. From the further calls:
        ``leak_detected`` and ``leak_mb_per_call``, decided by what stays allocated from call to call, both None if
        ``calls`` is too small to tell (below 5).

        Raises:
            ValueError: if ``calls`` is below 1.
        """
        if calls < 1:
            raise ValueError(f"calls must be at least 1, not {calls}")
        checked_prompt(func, "MemoryProfiler.profile")
        named = dict(kwargs or {})
        gc.collect()
        with Tracing() as tracing:
            result = func(*args, **named)
            final, peak = tracing.read()
            after = [final] * calls
            for call in range(1, calls):
                func(*args, **named)
                gc.collect()
                after[call] = tracing.read()[0]
        lost = leaked_bytes(after)
        self.baseline_memory, self.peak_memory = tracing.baseline, peak
        self.allocations = [left - tracing.baseline for left in after]
        return {
            "baseline_mb": tracing.baseline / MIB,
            "final_mb": final / MIB,
            "peak_mb": peak / MIB,
            "needed_mb": (peak - tracing.baseline) / MIB,
            "allocated_mb": (final - tracing.baseline) / MIB,
            "leak_detected": None if lost is None else lost > 0,
            "leak_mb_per_call": None if lost is None else lost / MIB,
            "calls": calls,
            "result": result,
        }

    def print_report(self, stats: Mapping[str, Any], name: str = "Function") -> None:
        """Print what `profile` returned."""
        print(f"Memory of {name}, by tracemalloc")
        for key in ("baseline_mb", "peak_mb", "final_mb", "needed_mb", "allocated_mb"):
            print(f"  {key.removesuffix('_mb'):<10} {stats[key]:12.3f} MiB")
        print(f"  {leak_sentence(stats)}")


def leak_sentence(stats: Mapping[str, Any]) -> str:
    """Return in words whether repeated calls leak, from what `MemoryProfiler.profile` returned."""
    if stats["leak_detected"] is None:
        return f"leak: {stats['calls']} calls are too few to tell"
    if stats["leak_detected"]:
        return f"leak: each further call left at least {stats['leak_mb_per_call']:.3f} MiB more"
    return f"leak: none in {stats['calls']} calls"


class MemoryTracker:
    """Peak memory of a body: ``with MemoryTracker() as m:`` and then ``m.peak_usage``, in MiB.

    Also ``m.peak_bytes``, the same in bytes, and ``m.current_bytes``, those that it left. All three are counted from
    the entry on, by tracemalloc; before the exit they are those so far.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.profiling import MemoryTracker
        >>> with MemoryTracker() as m:
        ...     total = np.ones(2**20, np.float32).sum()  # four bytes for each of 2**20 numbers
        >>> round(m.peak_usage, 1)
        4.0
    """

    _open = False

    def __enter__(self) -> Self:
        if self._open:
            raise RuntimeError("this MemoryTracker is open already: use another one for a body inside its body")
        self._tracing = Tracing().__enter__()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        self._tracing.__exit__(kind, error, trace)

    @property
    def peak_usage(self) -> float:
        """`peak_bytes` in MiB."""
        return self.peak_bytes / MIB

    @property
    def peak_bytes(self) -> int:
        """Most bytes allocated since the entry."""
        if self._open:
            self._tracing.read()
        return self._tracing.highest - self._tracing.baseline

    @property
    def current_bytes(self) -> int:
        """Bytes that are still allocated of what the body allocated; below 0 if it freed more."""
        if self._open:
            self._tracing.read()
        return self._tracing.current - self._tracing.baseline
