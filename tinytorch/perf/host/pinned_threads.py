"""The cores that this process may use, and a team of threads that start a piece of compiled work together on them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Barrier
from types import TracebackType
from typing import Any, Self

from tinytorch import settings
from tinytorch.perf.host.cgroup_limits import cpu_quota

#: Seconds after which a thread that waits for the others to start gives up.
_LONGEST_WAIT = 60.0


def allowed_cores() -> list[int]:
    """Return the numbers of the logical cores that this process may run on, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores() -> list[int]:
    """Return the numbers of the logical cores that this process may keep busy, in order.

    They are as many as the settings allow. A quota of a shared host counts, too, rounded up to whole cores: more
    threads would only hold one another up. Which cores it is then used on is not told by their numbers: see `may_pin`.

    Raises:
        ValueError: if the setting is not a number of cores.
    """
    asked = settings.SETTINGS.cores
    if asked and not (asked.isdecimal() and int(asked)):
        raise ValueError(f"{settings.variable('cores')} must be a whole number above 0, such as 2, not {asked!r}")
    allowed = allowed_cores()
    quota = cpu_quota()
    most = len(allowed) if quota is None else max(1, math.ceil(quota))
    return allowed[: min(most, int(asked or most))]


def may_pin() -> bool:
    """Return whether threads and processes can be kept on cores here, and do others no harm there.

    macOS lets nobody choose cores. Under a quota of less than the allowed cores everybody on the host is allowed the
    same ones, and all who pinned would pin to the same few while the others idle.
    """
    quota = cpu_quota()
    return hasattr(os, "sched_setaffinity") and (quota is None or quota >= len(allowed_cores()))


def pin(cores: Sequence[int]) -> None:
    """Keep this thread, and the processes that it starts, on ``cores``; nothing where the system lets nobody choose.

    Ask `may_pin` first.

    Raises:
        OSError: if it may not run on any of them.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


@contextmanager
def pinned_to(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on ``cores`` in the body, where `may_pin` says so."""
    if not may_pin():
        yield
        return
    before = allowed_cores()
    pin(cores)
    try:
        yield
    finally:
        pin(before)


class Team:
    """``with Team(2) as team: team.run([f, g])``: threads on cores of their own, where `may_pin` says so.

    ``cores`` are those used, the highest usable ones, and ``pinned`` whether the threads are kept on them. The calling
    thread's own cores stay as they are.

    Raises:
        ValueError: if ``threads`` is below 1 or above the number of usable cores.
    """

    def __init__(self, threads: int) -> None:
        usable = usable_cores()
        if not 1 <= threads <= len(usable):
            raise ValueError(f"threads must be 1 to {len(usable)}, the cores that this process may use, not {threads}")
        self.threads = threads
        self.cores = usable[-threads:]
        self.pinned = may_pin()
        self._free: SimpleQueue[int] = SimpleQueue()
        for core in self.cores:
            self._free.put(core)

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(self.threads, "probe", initializer=self._settle)
        self._start = Barrier(self.threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.abort()
        self._pool.shutdown()

    def _settle(self) -> None:
        core = self._free.get()
        if self.pinned:
            pin([core])

    def run(self, tasks: Sequence[Callable[[], Any]]) -> float:
        """Run one task on each thread and return the seconds from the first start to the last end.

        Raises:
            ValueError: if there are not as many tasks as threads.
        """
        if len(tasks) != self.threads:
            raise ValueError(f"tasks must be {self.threads}, one for each thread, not {len(tasks)}")
        spans = [future.result() for future in [self._pool.submit(self._timed, task) for task in tasks]]
        return (max(end for _, end in spans) - min(start for start, _ in spans)) * 1e-9

    def _timed(self, task: Callable[[], Any]) -> tuple[int, int]:
        self._start.wait(_LONGEST_WAIT)
        start = time.perf_counter_ns()
        task()
        return start, time.perf_counter_ns()
