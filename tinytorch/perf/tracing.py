"""Reading tracemalloc without disturbing a session that the caller has running."""

from __future__ import annotations

import tracemalloc
from types import TracebackType
from typing import Self

import numpy as np


class Tracing:
    """Traces allocations in its body; ``baseline`` is the bytes that were traced at entry.

    tracemalloc sees NumPy's arrays to the byte and Python's objects; it does not see BLAS work space. If tracing
    was on, it stays on with all that it knew. Reading peaks means resetting the one that tracemalloc keeps; at
    exit the caller's is raised back to what it would have been, by an allocation of that size that nothing
    touches.

    Attributes:
        highest: most bytes traced at any moment since entry, as far as it was read.
        own_session: whether tracing was off before, so that whatever is traced was allocated in the body.
    """

    def __enter__(self) -> Self:
        self.own_session = not tracemalloc.is_tracing()
        self._callers_peak = 0
        if self.own_session:
            tracemalloc.start(1)
        else:
            self._callers_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        self.baseline = tracemalloc.get_traced_memory()[0]
        self.highest = self.baseline
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.read()
        if self.own_session:
            tracemalloc.stop()
        else:
            _raise_peak(max(self._callers_peak, self.highest))

    def read(self) -> tuple[int, int]:
        """Return bytes traced now and the most since the last `restart_peak` (or entry)."""
        current, peak = tracemalloc.get_traced_memory()
        self.highest = max(self.highest, peak)
        return current, peak

    def restart_peak(self) -> int:
        """Let the peak start anew from now; return bytes traced now."""
        current, _ = self.read()
        tracemalloc.reset_peak()
        return current


def _raise_peak(wanted: int) -> None:
    """Make tracemalloc's peak at least ``wanted`` bytes."""
    current, peak = tracemalloc.get_traced_memory()
    if peak < wanted:
        np.empty(wanted - current, np.uint8)
