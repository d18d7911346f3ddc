"""The conditions of a benchmark: one core, one thread, and what ran it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_info

from tinytorch.perf.timing import blas_threads


@contextmanager
def one_core() -> Iterator[str]:
    """Pin the process to its last core with one BLAS thread; give a line that describes NumPy's BLAS."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with blas_threads(1):
            pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            described = ", ".join(
                f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'core unknown')})"
                for pool in pools
            )
            yield f"NumPy's BLAS: {described}, one thread, one core."
    finally:
        os.sched_setaffinity(0, before)
