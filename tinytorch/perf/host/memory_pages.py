"""Pages of memory: an arena on huge pages for probes, and the minor page faults of this process."""

from __future__ import annotations

import mmap
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: Size of a huge page on x86-64 and most others; a stretch is made to begin at a multiple of it.
HUGE_PAGE = 2 * 2**20
_POLICY = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_page_policy() -> str | None:
    """Return the system's policy on transparent huge pages, "always", "madvise" or "never"; None without one."""
    if not _POLICY.is_file():
        return None
    chosen = re.search(r"\[(\w+)\]", _POLICY.read_text("ascii"))
    return chosen[1] if chosen else None


def _private(size: int) -> mmap.mmap:
    """Return a mapping of this process alone: the system's huge pages are not for shared ones."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Arena:
    """``size`` bytes of zeros at a multiple of `HUGE_PAGE`, every page touched unless ``touched`` is False.

    ``memory`` is a flat uint8 array. The stretch is private to this process, and goes back with the last view of it.
    """

    def __init__(self, size: int, *, huge: bool = True, touched: bool = True) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1 byte, not {size}")
        mapped = _private(size + HUGE_PAGE)
        advice = getattr(mmap, "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE", None)
        if advice is not None:
            with suppress(OSError):  # a kernel without huge pages: normal ones serve, and huge_bytes says so
                mapped.madvise(advice)
        whole = np.frombuffer(mapped, np.uint8)
        start = -whole.ctypes.data % HUGE_PAGE
        self.memory: npt.NDArray[np.uint8] = whole[start : start + size]
        if touched:
            self.touch(1)

    def touch(self, step: int) -> None:
        """Write a zero to every ``step``-th byte."""
        self.memory[::step] = 0

    def view(self, start: int, count: int, dtype: Any) -> npt.NDArray[Any]:
        """Return ``count`` elements of ``dtype`` that begin ``start`` bytes into the stretch.

        Raises:
            ValueError: if they do not lie inside.
        """
        size = count * np.dtype(dtype).itemsize
        if start < 0 or start + size > self.memory.size:
            raise ValueError(f"the view must lie in bytes 0 to {self.memory.size}, not in {start} to {start + size}")
        return self.memory[start : start + size].view(dtype)

    def huge_bytes(self) -> int | None:
        """Return how many bytes of the stretch's mapping lie on huge pages; None where the system does not say."""
        smaps = Path("/proc/self/smaps")
        if not smaps.is_file():
            return None
        address = self.memory.ctypes.data
        inside = False
        for line in smaps.read_text("ascii", "replace").splitlines():
            bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if bounds:
                inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
            elif inside and line.startswith("AnonHugePages:"):
                return int(line.split()[1]) * 1024
        return None


if sys.platform == "win32":
    import psutil

    def minor_page_faults() -> int:
        """Return the page faults of this process so far, all threads; Windows counts major ones with them."""
        return int(psutil.Process().memory_info().num_page_faults)

else:
    import resource

    def minor_page_faults() -> int:
        """Return the minor page faults of this process so far, all threads.

        A fresh array costs one for each page at its first touch (4 KiB, 16 KiB on Apple's CPUs, or 2 MiB where huge
        pages are used). The difference of two readings belongs to what ran between them, in any thread. Source:
        getrusage(2), ru_minflt.
        """
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
