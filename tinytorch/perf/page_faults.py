"""Minor page faults: how often the system had to give this process a page of memory that it touched first."""

from __future__ import annotations

import sys

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
