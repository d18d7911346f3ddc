"""One build at a time in a checkout: a second one waits, also for what is left of one that was killed."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_build(lock: Path, waiting: Callable[[str], None]) -> Iterator[int]:
    """Hold the file `lock` while the body runs, and yield its descriptor.

    A process that inherits the descriptor holds the lock as well. So a build whose parent was killed keeps the
    next one waiting until it has ended, too. `waiting` is told once if another build is at work.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            waiting(f"Another build is at work here (process {owner or 'unknown'}): waiting until it has ended.")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)
