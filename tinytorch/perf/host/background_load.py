"""Load by other processes, which makes a measurement doubtful although it went well by itself."""

from __future__ import annotations

import os
import time

import psutil

#: Fields of the system's CPU times in which a core does nothing for anybody, or that are counted in others as well.
_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")


def _all_seconds() -> float:
    """Return the CPU seconds that all processes have used, and that a hypervisor took for other machines."""
    times = psutil.cpu_times()._asdict()
    return float(sum(value for name, value in times.items() if name not in _NOT_BUSY))


def _own_seconds() -> float:
    """Return the CPU seconds of this process and of those that it started."""
    process = psutil.Process()
    times = process.cpu_times()
    own = times.user + times.system + times.children_user + times.children_system
    for child in process.children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.Error:  # it ended meanwhile
            continue
        own += used.user + used.system
    return float(own)


#: CPU seconds that the clocks cannot tell from none: Linux charges a core with whole hundredths of a second, and what
#: all processes used is read at another moment than what ours did.
_RESOLUTION = 0.02 * (os.cpu_count() or 1)


class BackgroundLoad:
    """Watches from when it is made what other processes use of this machine's CPU time."""

    def __init__(self) -> None:
        self._since, self._all, self._own = time.perf_counter(), _all_seconds(), _own_seconds()

    def cores(self) -> float:
        """Return how many cores others kept busy since this was made, in the mean: at least, never below 0."""
        elapsed = time.perf_counter() - self._since
        others = (_all_seconds() - self._all) - (_own_seconds() - self._own) - _RESOLUTION
        return max(0.0, others / elapsed) if elapsed > 0 else 0.0
