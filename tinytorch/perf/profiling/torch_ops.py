"""PyTorch's own operations in a program that uses it, by name, as PyTorch's profiler counts them."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, NamedTuple

#: Seconds that are recorded at most: PyTorch's profiler keeps every call in memory, and takes as long to count them.
LONGEST = 20.0


#: All calls of one operation, as JSON holds them: ``op``, such as ``aten::addmm``; ``calls``; ``seconds`` without and
#: ``with_inner`` with operations inside; ``flops`` by PyTorch's own formulas, None where it has none.
Row = dict[str, Any]


class TorchCall(NamedTuple):
    """One call: when it began and ended, ns of ``time.perf_counter_ns``, its operation, and its thread's number."""

    start: int
    end: int
    op: str
    thread: int


class TorchOps:
    """Records PyTorch's operations of this thread, and of its backward, from now until `stop`, or for `LONGEST`.

    ``rows``, ``calls`` and ``remarks`` are there afterwards.

    Raises:
        RuntimeError: from PyTorch, if a profiler of it runs already.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        # Not torch.profiler, which loads some 800 modules more.
        from torch.autograd.profiler import profile

        self.rows: list[Row] = []
        self.calls: list[TorchCall] = []
        self.remarks: list[str] = []
        self._longest = longest
        # A pause between the two readings makes the difference smaller, so that the largest is the nearest.
        self._clock = max(time.perf_counter_ns() - time.time_ns() for _ in range(9))
        self._profiler: Any = profile(use_kineto=True, with_flops=True)
        self._profiler.__enter__()
        # Only the thread that began it can end it: the interpreter is asked to call this there.
        self._call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._over)
        self._timer = threading.Timer(longest, ctypes.pythonapi.Py_AddPendingCall, (self._call, None))
        self._timer.daemon = True
        self._timer.start()

    def _over(self, _: int | None) -> int:
        if self._profiler is not None:
            self.stop()
            self.remarks.append(f"PyTorch's operations are those of the first {self._longest:g} s since its import")
        return 0

    def stop(self) -> None:
        """Record no more, and make the rows, the longest first."""
        if self._profiler is None:
            return
        profiler, self._profiler = self._profiler, None
        self._timer.cancel()
        profiler.__exit__(None, None, None)
        for one in profiler.key_averages():
            times = {"seconds": one.self_cpu_time_total * 1e-6, "with_inner": one.cpu_time_total * 1e-6}
            self.rows.append({"op": one.key, "calls": one.count, **times, "flops": one.flops or None})
        self.rows.sort(key=lambda row: -row["seconds"])
        for one in profiler.kineto_results.events():
            start = one.start_ns() + self._clock
            self.calls.append(TorchCall(start, start + one.duration_ns(), one.name(), one.start_thread_id()))
