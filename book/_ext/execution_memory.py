"""The most memory that a page held while it ran: its kernel and all processes below it, together."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Self

import psutil

#: Seconds between two looks. A look takes some milliseconds of another thread than the page's.
_EVERY_SECONDS = 0.5


def held_bytes(processes: list[psutil.Process]) -> int:
    """Return the bytes of memory that the processes hold together; one that has ended holds none.

    Memory that several share counts in parts, once in all, as a group's limit charges it. Where the system does not
    tell shares (macOS), only what each has for itself counts. Source: proc_pid_smaps(5), Pss.
    """
    total = 0
    for process in processes:
        try:
            found = process.memory_full_info()
        except psutil.Error:
            continue
        total += getattr(found, "pss", found.uss)
    return total


class PeakMemory:
    """``with PeakMemory() as peak: ...; peak.bytes``: the most that processes below this one held together.

    Looked at twice a second: what is held for less may be missed.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._over = Event()
        self._watch = Thread(target=self._look, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        own = psutil.Process()
        while not self._over.wait(_EVERY_SECONDS):
            self.bytes = max(self.bytes, held_bytes(own.children(recursive=True)))
